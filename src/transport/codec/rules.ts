/**
 * The rules of requests: one pass over a message, compiled from its protobuf definition, the same for every protocol.
 * The pass normalizes the message in place: an optional member that was sent empty becomes absent, as callers send `""`
 * for unused options. It finds text that stores and RFC 8785 cannot hold, excessive sizes, and broken protovalidate
 * rules, in the words and the order of protovalidate, with which tests compare. A definition with a field or a rule of
 * another kind is refused.
 */
import {
  clearField,
  create,
  type DescField,
  type DescMessage,
  getOption,
  isFieldSet,
  isMessage,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  MessageRulesSchema,
  message as messageRules,
  StringRulesSchema,
} from "../../../gen/buf/validate/validate_pb.ts";
import { type RecordEvidenceRequest, RecordEvidenceRequestSchema } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";
import { rememberedBy } from "../../base/remembered.ts";
import { charactersIn, isLongerThan } from "../../base/text-forms.ts";
import { occurredAtViolations } from "../../domain/evidence.ts";
import { checkFree, isFree, itemLimit, uncleanText } from "./contract.ts";

/** Normalizes a message and returns its violations. */
export type Rules = (message: Message) => readonly Violation[];

interface Finding extends Violation {
  /** Path in what is being checked, which the checks around it complete. */
  field: string;
  /** Whether the finding is of content or size, not of a protovalidate rule. These come first. */
  readonly isOwn: boolean;
}

type Values = Readonly<Record<string, unknown>>;
type Check = (value: unknown, found: Finding[]) => void;

const noViolations: readonly Violation[] = [];

/** Returns the rules of a message type. Throws a TypeError if it has a field or a rule that is not supported. */
export const rulesOf = rememberedBy((desc: DescMessage): Rules => {
  const check = messageCheck(desc);
  return (message) => {
    const found: Finding[] = [];
    check(message, found);
    return found.length === 0 ? noViolations : report(desc, message, found);
  };
});

/** Rules of size. If one is violated, the message is not checked against the other rules. */
const sizeRules: ReadonlySet<string> = new Set(["repeated.max_items", "map.max_pairs", "string.max_len"]);

function report(desc: DescMessage, message: Message, found: readonly Finding[]): readonly Violation[] {
  const only = (which: boolean): Violation[] =>
    found
      .filter(({ isOwn }) => isOwn === which)
      .map(({ field, rule, message: text }) => ({ field, rule, message: text }));
  const own = only(true);
  if (own.some(({ rule }) => sizeRules.has(rule))) return own;
  const violations = own.concat(only(false).slice(0, maxViolations));
  const named = new Set(violations.map(({ field }) => field));
  return violations.concat(formatViolations(desc, message).filter(({ field }) => !named.has(field)));
}

/** Format checks of the handlers, for a request that breaks rules anyway, so that one answer has all faults. */
function formatViolations(desc: DescMessage, message: Message): readonly Violation[] {
  if (desc.typeName === RecordEvidenceRequestSchema.typeName)
    return occurredAtViolations((message as RecordEvidenceRequest).occurredAt);
  // An item contains the request.
  return desc.fields.flatMap((field) => {
    const value = (message as unknown as Values)[field.localName];
    if (field.fieldKind !== "message" || !isMessage(value)) return [];
    return formatViolations(field.message, value).map((violation) => ({
      ...violation,
      field: `${field.name}.${violation.field}`,
    }));
  });
}

function messageCheck(desc: DescMessage): Check {
  requireSupported(desc, reflect(MessageRulesSchema, getOption(desc, messageRules)));
  if (desc.oneofs.length > 0) throw unsupported(desc);
  const members = desc.fields.map(memberCheck);
  return (message, found) => {
    for (const check of members) check(message, found);
  };
}

/** Returns the check of a member, which takes the message. */
function memberCheck(field: DescField): Check {
  const rules = getOption(field, fieldRules);
  requireSupported(field, reflect(FieldRulesSchema, rules));
  const { localName, name } = field;
  const { required } = rules;
  const check = valueCheck(field, rules);
  const isOptional = field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  const empty = field.fieldKind === "enum" ? 0 : "";
  return (message, found) => {
    const value = (message as Values)[localName];
    if (isOptional && value === empty) clearField(message as Message, field);
    const isAbsent = isOptional
      ? value === undefined || value === empty
      : required && !isFieldSet(message as Message, field);
    if (!isAbsent) checkIn(check, value, found, name);
    else if (required) found.push(broken("required", "value is required", name));
  };
}

function valueCheck(field: DescField, rules: FieldRules): Check {
  const { type } = rules;
  switch (field.fieldKind) {
    case "message":
      if (type.case !== undefined) break;
      return isFree(field.message) ? checkFreeObject : messageCheck(field.message);
    case "enum": {
      if (type.case !== "enum" || !type.value.definedOnly) break;
      const numbers = new Set<unknown>(field.enum.values.map(({ number }) => number));
      const undeclared = "value must be one of the defined enum values";
      return (value, found) => {
        if (!numbers.has(value)) found.push(broken("enum.defined_only", undeclared));
      };
    }
    case "scalar":
      return scalarCheck(field, field.scalar, rules);
    case "list": {
      if (type.case !== "repeated" || (field.listKind !== "scalar" && type.value.items !== undefined)) break;
      if (field.listKind === "enum") break;
      const check =
        field.listKind === "message" ? messageCheck(field.message) : scalarCheck(field, field.scalar, type.value.items);
      const isHopeless = countCheck(field, `must contain no more than ${type.value.maxItems} item(s)`);
      return (value, found) => {
        const items = value as readonly unknown[];
        if (isHopeless(items.length, found)) return;
        for (let i = 0; i < items.length; i++) checkIn(check, items[i], found, "", i);
      };
    }
    case "map": {
      if (type.case !== "map" || field.mapKey !== ScalarType.STRING || field.mapKind !== "scalar") break;
      const checkKey = scalarCheck(field, field.mapKey, type.value.keys);
      const checkValue = scalarCheck(field, field.scalar, type.value.values);
      const isHopeless = countCheck(field, `map must be at most ${type.value.maxPairs} entries`);
      return (value, found) => {
        const keys = Object.keys(value as Values);
        if (isHopeless(keys.length, found)) return;
        keys.forEach((key, i) => {
          checkIn(checkKey, key, found, ".key", i);
          checkIn(checkValue, (value as Values)[key], found, ".value", i);
        });
      };
    }
  }
  throw unsupported(field);
}

function checkFreeObject(value: unknown, found: Finding[]): void {
  const violations: Violation[] = [];
  checkFree(value, "", violations);
  found.push(...violations.map((violation) => ({ ...violation, isOwn: true })));
}

/** The items of a list or map with more of them are not checked: their number alone refuses it. */
const hopelessItems = 1024;

/** Returns the check of the number of items. It returns whether the items themselves need no check. */
function countCheck(field: DescField, message: string): (count: number, found: Finding[]) => boolean {
  const limit = itemLimit(field);
  return (count, found) => {
    const tooMany = limit(count, "");
    const isHopeless = tooMany !== undefined && count > hopelessItems;
    if (tooMany !== undefined) found.push(isHopeless ? { ...tooMany, isOwn: true } : broken(tooMany.rule, message));
    return isHopeless;
  };
}

function scalarCheck(field: DescField, scalar: ScalarType, { type } = create(FieldRulesSchema)): Check {
  if (scalar === ScalarType.STRING && (type.case === "string" || type.case === undefined)) return textCheck(type.value);
  if (scalar === ScalarType.BOOL && type.case === undefined) return () => {};
  if (scalar !== ScalarType.INT64 || type.case !== "int64") throw unsupported(field);
  const { greaterThan, lessThan } = type.value;
  const [least, most] = [greaterThan.value, lessThan.value];
  if (least === undefined || most === undefined || least > most) throw unsupported(field);
  const message = `must be greater than or equal to ${least} and less than or equal to ${most}`;
  return (value, found) => {
    if ((value as bigint) < least || (value as bigint) > most) found.push(broken("int64.gte_lte", message));
  };
}

/** A text up to this length, in UTF-16 units, is cheap to process. */
const shortUnits = 4096;

function textCheck(rules = create(StringRulesSchema)): Check {
  const min = Number(rules.minLen);
  const max = isFieldSet(rules, StringRulesSchema.field.maxLen) ? Number(rules.maxLen) : Number.POSITIVE_INFINITY;
  // Patterns of our own definitions are linear, so JavaScript's regular expressions are safe, and faster than RE2.
  const pattern = rules.pattern === "" ? undefined : new RegExp(rules.pattern, "u");
  const tooLong = `must be at most ${max} characters`;
  return (value, found) => {
    const text = value as string;
    const { length } = text;
    // For a long text, nothing else is looked for.
    const isTooLong = isLongerThan(text, max);
    if (isTooLong && length > shortUnits) return void found.push({ ...broken("string.max_len", tooLong), isOwn: true });
    if (!isCleanText(text)) found.push({ ...uncleanText(""), isOwn: true });
    if (length < 2 * min && charactersIn(text) < min)
      found.push(broken("string.min_len", `must be at least ${min} characters`));
    if (isTooLong) found.push(broken("string.max_len", tooLong));
    if (pattern !== undefined && !pattern.test(text))
      found.push(broken("string.pattern", `does not match regex pattern \`${rules.pattern}\``));
  };
}

/** Checks a member, an item, or a part of it, and completes the paths of what is found. */
function checkIn(check: Check, value: unknown, found: Finding[], name: string, index?: number): void {
  const from = found.length;
  check(value, found);
  if (found.length === from) return;
  const place = index === undefined ? name : `[${index}]${name}`;
  for (const finding of found.slice(from))
    finding.field = /^\w/.test(finding.field) ? `${place}.${finding.field}` : place + finding.field;
}

function broken(rule: string, message: string, field = ""): Finding {
  return { field, rule, message, isOwn: false };
}

/** Rules that the pass knows. */
const supported: ReadonlySet<string> = new Set([
  ...["required", "enum", "int64", "map", "repeated", "string"].map((name) => `FieldRules.${name}`),
  ...["min_len", "max_len", "pattern"].map((name) => `StringRules.${name}`),
  ...["max_pairs", "keys", "values"].map((name) => `MapRules.${name}`),
  ...["RepeatedRules.max_items", "RepeatedRules.items", "Int64Rules.gte", "Int64Rules.lte", "EnumRules.defined_only"],
]);

/** Throws if any other rule is set, extensions included. */
function requireSupported(of: DescField | DescMessage, rules: ReflectMessage): void {
  if ((rules.getUnknown() ?? []).length > 0) throw unsupported(of);
  for (const rule of rules.fields.filter((field) => rules.isSet(field))) {
    if (!supported.has(`${rules.desc.name}.${rule.name}`)) throw unsupported(of);
    if (rule.fieldKind === "message") requireSupported(of, rules.get(rule));
  }
}

function unsupported(of: DescField | DescMessage): TypeError {
  return new TypeError(`${of} is of a kind, or has a rule, that requests cannot have`);
}
