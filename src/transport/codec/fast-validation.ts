/**
 * Fast validation: one walk that proves of an ordinary message that it obeys every rule of its protobuf definition,
 * that its text is clean and that no optional member was sent empty. It costs a tenth of full validation, which runs if
 * this test fails. Compiled once for each message type.
 */
import { type DescField, type DescMessage, getOption, isFieldSet, type Message, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import {
  EnumRulesSchema,
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  Int64RulesSchema,
  MapRulesSchema,
  MessageRulesSchema,
  message as messageRules,
  RepeatedRulesSchema,
  StringRulesSchema,
} from "../../../gen/buf/validate/validate_pb.ts";
import { isCleanText } from "../../base/ids.ts";

/** Whether a text matches a pattern, with the regular expressions of full validation. */
export type Matches = (pattern: string, text: string) => boolean;

type Values = Readonly<Record<string, unknown>>;
type Test = (value: unknown) => boolean;

/**
 * Compiles the test of a message type. True means that normalizing changes nothing and that no rule is broken. False
 * means unknown, as for text whose length in characters does not follow from its length in UTF-16 units. Returns
 * undefined if the type has a field or a rule of an unsupported kind.
 */
export function fastValidator(desc: DescMessage, matches: Matches): ((message: Message) => boolean) | undefined {
  return compile(desc, matches, []);
}

function compile(desc: DescMessage, matches: Matches, outer: readonly DescMessage[]): Test | undefined {
  if (outer.includes(desc) || desc.oneofs.length > 0) return undefined;
  if (!setsOnly(MessageRulesSchema, getOption(desc, messageRules), [])) return undefined;
  const members: { readonly localName: string; readonly test: Test }[] = [];
  for (const field of desc.fields) {
    const test = compileField(field, matches, [...outer, desc]);
    if (test === undefined) return undefined;
    members.push({ localName: field.localName, test });
  }
  return (message) => {
    for (const { localName, test } of members) if (!test((message as Values)[localName])) return false;
    return true;
  };
}

function compileField(field: DescField, matches: Matches, outer: readonly DescMessage[]): Test | undefined {
  const rules = getOption(field, fieldRules);
  if (!setsOnly(FieldRulesSchema, rules, ["required", rules.type.case])) return undefined;
  const whenSet = compileKind(field, rules, matches, outer);
  if (whenSet === undefined) return undefined;
  // Empty or 0 must be cleared if the member is optional, and is missing if it is required.
  const isOptional = field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  if (isOptional && !rules.required) {
    if (field.fieldKind === "enum") return (value) => value === undefined || (value !== 0 && whenSet(value));
    return (value) => value === undefined || (value !== "" && whenSet(value));
  }
  if (!rules.required) return whenSet;
  if (field.fieldKind === "message") return (value) => value !== undefined && whenSet(value);
  if (field.fieldKind === "enum" && !isOptional) return (value) => value !== 0 && whenSet(value);
  return undefined;
}

function compileKind(
  field: DescField,
  rules: FieldRules,
  matches: Matches,
  outer: readonly DescMessage[],
): Test | undefined {
  switch (field.fieldKind) {
    case "message":
      return rules.type.case === undefined ? compile(field.message, matches, outer) : undefined;
    case "enum":
      return enumTest(field.enum.values, rules);
    case "scalar":
      return scalarTest(field.scalar, rules, matches);
    case "list":
      return field.listKind === "scalar" ? listTest(field.scalar, rules, matches) : undefined;
    case "map":
      return field.mapKind === "scalar" && field.scalar === ScalarType.STRING && field.mapKey === ScalarType.STRING
        ? mapTest(rules, matches)
        : undefined;
  }
}

function enumTest(declared: readonly { readonly number: number }[], { type }: FieldRules): Test | undefined {
  if (type.case === undefined) return () => true;
  if (type.case !== "enum" || !setsOnly(EnumRulesSchema, type.value, ["definedOnly"])) return undefined;
  const numbers = new Set<unknown>(declared.map(({ number }) => number));
  return type.value.definedOnly ? (value) => numbers.has(value) : () => true;
}

function scalarTest(scalar: ScalarType, rules: FieldRules, matches: Matches): Test | undefined {
  switch (scalar) {
    case ScalarType.STRING:
      return textTest(rules, matches);
    case ScalarType.INT64:
      return longTest(rules);
    case ScalarType.BOOL:
    case ScalarType.INT32:
      return rules.type.case === undefined ? () => true : undefined;
    default:
      return undefined;
  }
}

function textTest({ type }: FieldRules, matches: Matches): Test | undefined {
  if (type.case === undefined) return (value) => isCleanText(value as string);
  if (type.case !== "string" || !setsOnly(StringRulesSchema, type.value, ["minLen", "maxLen", "pattern"]))
    return undefined;
  const rules = type.value;
  // Limits are in characters, which have one or two UTF-16 units.
  const maxUnits = isFieldSet(rules, StringRulesSchema.field.maxLen) ? Number(rules.maxLen) : Number.POSITIVE_INFINITY;
  const minUnits = Math.max(0, 2 * Number(rules.minLen) - 1);
  const isValid = (value: unknown) => {
    const { length } = value as string;
    return length >= minUnits && length <= maxUnits && isCleanText(value as string);
  };
  if (!isFieldSet(rules, StringRulesSchema.field.pattern)) return isValid;
  const { pattern } = rules;
  return (value) => isValid(value) && matches(pattern, value as string);
}

function longTest({ type }: FieldRules): Test | undefined {
  if (type.case === undefined) return () => true;
  if (type.case !== "int64" || !setsOnly(Int64RulesSchema, type.value, ["gte", "lte"])) return undefined;
  const { greaterThan, lessThan } = type.value;
  if (greaterThan.case !== "gte" || lessThan.case !== "lte" || greaterThan.value > lessThan.value) return undefined;
  const { value: least } = greaterThan;
  const { value: most } = lessThan;
  return (value) => (value as bigint) >= least && (value as bigint) <= most;
}

/** A list without a limit is not supported: the walk would be as long as the list. */
function listTest(scalar: ScalarType, { type }: FieldRules, matches: Matches): Test | undefined {
  if (type.case !== "repeated" || !setsOnly(RepeatedRulesSchema, type.value, ["maxItems", "items"])) return undefined;
  if (!isFieldSet(type.value, RepeatedRulesSchema.field.maxItems)) return undefined;
  const maxItems = Number(type.value.maxItems);
  const item = contentTest(scalar, type.value.items, matches);
  return item && ((value) => (value as readonly unknown[]).length <= maxItems && (value as unknown[]).every(item));
}

function mapTest({ type }: FieldRules, matches: Matches): Test | undefined {
  if (type.case !== "map" || !setsOnly(MapRulesSchema, type.value, ["maxPairs", "keys", "values"])) return undefined;
  if (!isFieldSet(type.value, MapRulesSchema.field.maxPairs)) return undefined;
  const maxPairs = Number(type.value.maxPairs);
  const isValidKey = contentTest(ScalarType.STRING, type.value.keys, matches);
  const isValidValue = contentTest(ScalarType.STRING, type.value.values, matches);
  if (isValidKey === undefined || isValidValue === undefined) return undefined;
  return (value) => {
    const keys = Object.keys(value as Values);
    return keys.length <= maxPairs && keys.every((key) => isValidKey(key) && isValidValue((value as Values)[key]));
  };
}

function contentTest(scalar: ScalarType, rules: FieldRules | undefined, matches: Matches): Test | undefined {
  if (rules === undefined) return scalar === ScalarType.STRING ? (value) => isCleanText(value as string) : undefined;
  if (!setsOnly(FieldRulesSchema, rules, [rules.type.case])) return undefined;
  return scalarTest(scalar, rules, matches);
}

/** Whether only these members are set, extensions included. */
function setsOnly(desc: DescMessage, rules: Message, localNames: readonly (string | undefined)[]): boolean {
  if (rules.$unknown !== undefined && rules.$unknown.length > 0) return false;
  return desc.fields.every((field) => !isFieldSet(rules, field) || localNames.includes(field.localName));
}
