import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { type DescMessage, isMessage, type Message } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import type { Violation as RuleViolation, Validator } from "@bufbuild/protovalidate";
import { type RecordEvidenceRequest, RecordEvidenceRequestSchema } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { occurredAtViolations } from "../../domain/evidence.ts";
import { fastValidator } from "./fast-validation.ts";
import type * as FullValidation from "./full-validation.ts";
import { normalize } from "./normalize.ts";
import { isOfSize, shortUnits } from "./size-limits.ts";

/** Normalizes a message and returns its violations of the rules in its protobuf definition. */
export type Rules = (desc: DescMessage, message: Message) => readonly Violation[];

const require = createRequire(import.meta.url);
/** Leaves the first calls undisturbed. */
const warmUpAfterMs = 1_000;

const noViolations: readonly Violation[] = [];

/**
 * Creates the rules of messages. Full validation is loaded for the first message that needs it, or else some time after
 * the first message, so that an idle service does without it.
 *
 * @param warmUp request types whose rules are compiled then: their first use costs about 10 ms each
 */
export function createRules(warmUp: readonly { readonly desc: DescMessage; readonly sample: Message }[]): Rules {
  // Patterns of our own definitions are linear, so JavaScript's regular expressions are safe, and faster than RE2.
  const matchers = new Map<string, RegExp>();
  const regexMatch = (pattern: string, text: string) => {
    let matcher = matchers.get(pattern);
    if (matcher === undefined) {
      matcher = new RegExp(pattern, "u");
      matchers.set(pattern, matcher);
    }
    return matcher.test(text);
  };
  let loaded: Validator | undefined;
  const validator = () => {
    loaded ??= (
      require(fileURLToPath(new URL("./full-validation.ts", import.meta.url))) as typeof FullValidation
    ).fullValidator(regexMatch);
    return loaded;
  };
  /** One type per turn of the event loop. */
  const compile = ([first, ...others]: typeof warmUp) => {
    if (first === undefined) return;
    validator().validate(first.desc, first.sample);
    setImmediate(compile, others).unref();
  };
  let isUsed = false;
  const goodTypes = new Map(warmUp.map(({ desc }) => [desc, fastValidator(desc, regexMatch)]));
  return (desc, message) => {
    if (!isUsed) {
      isUsed = true;
      setTimeout(compile, warmUpAfterMs, warmUp).unref();
    }
    const isGood = goodTypes.get(desc);
    if (isGood?.(message)) return noViolations;
    const unclean = normalize(desc, message);
    if (unclean.some(isOfSize)) return unclean;
    // Normalizing may have removed the only faults.
    return isGood?.(message) ? noViolations : check(validator(), desc, message, unclean);
  };
}

function check(
  validator: Validator,
  desc: DescMessage,
  message: Message,
  unclean: readonly Violation[],
): readonly Violation[] {
  const result = validator.validate(desc, withoutLongTexts(desc, message));
  if (result.kind === "error") throw result.error;
  const broken = result.kind === "invalid" ? result.violations.slice(0, maxViolations) : [];
  const found = [...unclean].concat(broken.map((violation) => toViolation(violation, message)));
  if (found.length === 0) return found;
  const named = new Set(found.map(({ field }) => field));
  return found.concat(formatViolations(desc, message).filter(({ field }) => !named.has(field)));
}

/**
 * Returns the message without its long texts, whose length was checked already: the validator makes a list of
 * characters to count them. Only optional members are that long, and they have no other rule.
 */
function withoutLongTexts(desc: DescMessage, message: Message): Message {
  const values = message as unknown as Readonly<Record<string, unknown>>;
  const changed = desc.fields.flatMap((field): readonly (readonly [string, unknown])[] => {
    const { localName, proto } = field;
    const value = values[localName];
    if (field.fieldKind === "message" && isMessage(value)) {
      const shorter = withoutLongTexts(field.message, value);
      return shorter === value ? [] : [[localName, shorter]];
    }
    const isLong = proto.proto3Optional && typeof value === "string" && value.length > shortUnits;
    return isLong ? [[localName, undefined]] : [];
  });
  return changed.length === 0 ? message : { ...message, ...Object.fromEntries(changed) };
}

function toViolation({ field, ruleId, message: text, forKey }: RuleViolation, message: Message): Violation {
  return { field: pathOf(field, message, forKey), rule: ruleId, message: text };
}

/** Path in the names of the JSON routes. Map keys are the caller's text, so their positions are used. */
function pathOf(path: Path, message: Message, forKey: boolean): string {
  let text = "";
  let value: unknown = message;
  for (const segment of path) {
    if (segment.kind === "map_sub") {
      const position = Object.keys(value as object).indexOf(String(segment.key));
      text += `[${position}].${forKey ? "key" : "value"}`;
      value = (value as Record<string, unknown>)[String(segment.key)];
    } else if (segment.kind === "list_sub") {
      text += `[${segment.index}]`;
      value = (value as readonly unknown[])[segment.index];
    } else if (segment.kind === "field") {
      text += text === "" ? segment.name : `.${segment.name}`;
      value = (value as Record<string, unknown> | undefined)?.[segment.localName];
    }
  }
  return text;
}

/** Format checks of the handlers, for a request that breaks rules anyway, so that one answer has all faults. */
export function formatViolations(desc: DescMessage, message: Message): readonly Violation[] {
  if (desc.typeName === RecordEvidenceRequestSchema.typeName)
    return occurredAtViolations((message as RecordEvidenceRequest).occurredAt);
  // An item contains the request.
  return desc.fields.flatMap((field) => {
    const value = (message as unknown as Readonly<Record<string, unknown>>)[field.localName];
    if (field.fieldKind !== "message" || !isMessage(value)) return [];
    return formatViolations(field.message, value).map((violation) => ({
      ...violation,
      field: `${field.name}.${violation.field}`,
    }));
  });
}
