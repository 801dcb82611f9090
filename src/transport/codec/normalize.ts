/**
 * Normalizes a decoded message the same way for every protocol, before rules are checked: an optional member that was
 * sent empty becomes absent (callers send `""` for unused options), and text that stores and RFC 8785 cannot hold is
 * refused. Compiled once for each message type.
 */
import { clearField, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import type { FieldRules } from "../../../gen/buf/validate/validate_pb.ts";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";
import { checkFree, isFree, itemLimit } from "./contract.ts";
import { textLimit, textRulesOf } from "./size-limits.ts";

type Values = Record<string, unknown>;
type Step = (message: Message & Values, path: string, violations: Violation[]) => void;

const steps = new WeakMap<DescMessage, readonly Step[]>();

/** Clears empty optional members in place. Returns violations of unstorable text and of excessive sizes. */
export function normalize(desc: DescMessage, message: Message): Violation[] {
  const violations: Violation[] = [];
  walk(desc, message, "", violations);
  return violations;
}

function walk(desc: DescMessage, message: Message, path: string, violations: Violation[]): void {
  let compiled = steps.get(desc);
  if (compiled === undefined) {
    compiled = desc.fields.flatMap((field) => compile(field) ?? []);
    steps.set(desc, compiled);
  }
  for (const step of compiled) step(message as Message & Values, path, violations);
}

/** Returns the step for a field; undefined if the field needs none. */
function compile(field: DescField): Step | undefined {
  const { localName, name } = field;
  switch (field.fieldKind) {
    case "message":
      return (message, path, violations) => {
        const value = message[localName];
        if (value === undefined) return;
        if (isFree(field.message)) checkFree(value, path + name, violations);
        else walk(field.message, value as Message, `${path}${name}.`, violations);
      };
    case "enum":
      if (field.oneof === undefined && !optional(field)) return undefined;
      return (message) => {
        if (message[localName] === 0) clearField(message, field);
      };
    case "scalar": {
      const check = textCheck(textRulesOf(field).own);
      return (message, path, violations) => {
        const value = message[localName];
        if (value === "" && optional(field)) clearField(message, field);
        else check(value, () => path + name, violations);
      };
    }
    case "list": {
      if (field.listKind === "enum") return undefined;
      if (field.listKind === "message") {
        return (message, path, violations) => {
          const items = message[localName] as readonly Message[];
          if (isHopeless(items.length, field, path, violations)) return;
          for (const [i, item] of items.entries()) walk(field.message, item, `${path}${name}[${i}].`, violations);
        };
      }
      const check = textCheck(textRulesOf(field).items);
      return (message, path, violations) => {
        const items = message[localName] as readonly unknown[];
        if (isHopeless(items.length, field, path, violations)) return;
        for (let i = 0; i < items.length && violations.length < maxViolations; i++)
          check(items[i], () => `${path}${name}[${i}]`, violations);
      };
    }
    case "map": {
      const { keys, values } = textRulesOf(field);
      const [checkKey, checkValue] = [textCheck(keys), textCheck(values)];
      return (message, path, violations) => {
        const entries = Object.entries(message[localName] as Values);
        if (isHopeless(entries.length, field, path, violations)) return;
        entries.forEach(([key, value], i) => {
          if (violations.length >= maxViolations) return;
          checkKey(key, () => `${path}${name}[${i}].key`, violations);
          checkValue(value, () => `${path}${name}[${i}].value`, violations);
        });
      };
    }
  }
}

/** A list with more items is refused without looking at them. */
const hopelessItems = 1024;

/** Whether the number of items alone decides; their rules are then skipped. */
function isHopeless(items: number, field: DescField, path: string, violations: Violation[]): boolean {
  if (items <= hopelessItems) return false;
  const violation = itemLimit(field)(items, path + field.name);
  if (violation !== undefined) violations.push(violation);
  return violation !== undefined;
}

function optional(field: DescField): boolean {
  return field.proto.proto3Optional;
}

/** Returns the check of a text. It tests the length first, which is enough to refuse a long text. */
function textCheck(
  rules: FieldRules | undefined,
): (value: unknown, path: () => string, violations: Violation[]) => void {
  const limit = textLimit(rules);
  return (value, path, violations) => {
    if (typeof value !== "string") return;
    const tooLong = limit(value, path);
    if (tooLong !== undefined) violations.push(tooLong);
    else if (!isCleanText(value))
      violations.push({ field: path(), rule: "string.clean", message: "must not contain U+0000 or a lone surrogate" });
  };
}
