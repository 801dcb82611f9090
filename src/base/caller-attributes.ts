/**
 * Attributes of the caller that the operator declares, to be read from credentials beside the members that every caller
 * has: their names, types and values.
 */
import { isCleanText } from "./ids.ts";

/** Types that an attribute can have: text, set of text, whole number, yes or no. */
export const attributeTypes = ["text", "set_of_text", "whole_number", "yes_no"] as const;
export type AttributeType = (typeof attributeTypes)[number];

/** A value: text, whole number, yes or no, or a set of text, sorted and without duplicates. */
export type AttributeValue = string | number | boolean | readonly string[];

/** Values by the name of their attribute. Only own properties count: no name is special. */
export type AttributeValues = Readonly<Record<string, AttributeValue>>;

/** What the operator declares of one attribute. */
export interface AttributeDeclaration {
  readonly type: AttributeType;
  /** Where a token has it: names of members within each other, the outermost first. */
  readonly claim: readonly string[];
  /** Whether credentials without it, or with a value of another type, are refused. Otherwise it is absent then. */
  readonly required: boolean;
}

/** Declarations by the name of their attribute. */
export type AttributeDeclarations = Readonly<Record<string, AttributeDeclaration>>;

/** The declarations in force, now and later. */
export interface DeclaredAttributes {
  readonly current: AttributeDeclarations;
  /** Another number each time that they change. */
  readonly revision: number;
}

export const noDeclaredAttributes: DeclaredAttributes = { current: {}, revision: 0 };

/** Longest text, in UTF-16 units; most members of a set, and bytes of all of them in UTF-8. */
const maximumText = 1_024;
const maximumMembers = 1_000;
const maximumSetBytes = 64 * 1024;

/**
 * The value as the type has it; undefined where it is of another one. So is what is too large: text beyond 1,024
 * characters, a set beyond 1,000 members or 64 KiB, a number beyond 2^53 − 1, which JSON readers round.
 */
export function attributeValue(type: AttributeType, value: unknown): AttributeValue | undefined {
  switch (type) {
    case "text":
      return isText(value) ? value : undefined;
    case "set_of_text":
      return setOfText(value);
    case "whole_number":
      return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
    case "yes_no":
      return typeof value === "boolean" ? value : undefined;
  }
}

/** Names that the operator gave values or places to, of attributes that nobody declares: nothing of them is read. */
export function undeclaredNames(declared: AttributeDeclarations, given: readonly object[]): readonly string[] {
  const names = new Set(given.flatMap((values) => Object.keys(values)));
  return [...names].filter((name) => !Object.hasOwn(declared, name)).sort();
}

/** The value as any of the types has it: of what is declared nowhere yet. Undefined where no type has it. */
export function anyAttributeValue(value: unknown): AttributeValue | undefined {
  return attributeTypes.map((type) => attributeValue(type, value)).find((found) => found !== undefined);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= maximumText && isCleanText(value);
}

function setOfText(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length > maximumMembers || !value.every(isText)) return undefined;
  let sizeBytes = 0;
  for (const member of value) sizeBytes += Buffer.byteLength(member, "utf8");
  return sizeBytes > maximumSetBytes ? undefined : [...new Set(value)].sort();
}

/**
 * Names what is wrong with a caller that has these attributes; empty where nothing is. No credentials make a caller of
 * whom anything is wrong.
 */
export function attributeProblems(declared: AttributeDeclarations, values: AttributeValues = {}): readonly string[] {
  const given = Object.entries(values).flatMap(([name, value]) => {
    if (!Object.hasOwn(declared, name)) return [`the attribute ${name} is not declared`];
    const { type } = declared[name] as AttributeDeclaration;
    return attributeValue(type, value) === undefined ? [`the attribute ${name} must be ${typeNames[type]}`] : [];
  });
  const missing = Object.keys(declared).filter((name) => declared[name]?.required && !Object.hasOwn(values, name));
  return [...given, ...missing.map((name) => `the attribute ${name} is required`)];
}

/** What a value of the type must be, for a person. */
export const typeNames: Readonly<Record<AttributeType, string>> = {
  text: "text of at most 1024 characters",
  set_of_text: "a list of at most 1000 texts",
  whole_number: "a whole number",
  yes_no: "true or false",
};
