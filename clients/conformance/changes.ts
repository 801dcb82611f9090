/** Answers and records that differ from the sample in one member each, made from the table that all packages share. */
import { type DescField, type DescMessage, type JsonObject, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { recordRelations } from "../../gen/record-relations.ts";
import type { Expected } from "./check.ts";
import type { BulkRoute, Route } from "./protocol.ts";
import { answers, methods, requests, singleRoutes } from "./requests.ts";

/** A member, and what is merged into the sample so that it is another. */
export interface Change {
  readonly member: string;
  readonly change: JsonObject;
}

interface Row {
  readonly member: string;
  readonly of?: readonly string[];
}

const rows: readonly Row[] = recordRelations.answer;

/** Of the sample answer of a route, in protobuf JSON. */
export function answerChanges(route: Route): readonly Change[] {
  const members = new Set(rows.filter(({ of }) => of?.includes(route) ?? true).map(({ member }) => member));
  // The sample names no locator, and a decision's id is compared of brief receipts, too.
  members.delete("request_summary.artifact_locator_present");
  return [...members].map((member) => ({
    member,
    change: anotherAt(methods[route].output, member.split("."), answers[route]),
  }));
}

/** Of an item of the answer to a bulk call. */
export function itemChanges(route: BulkRoute): readonly Change[] {
  return answerChanges(singleRoutes[route]).filter(({ member }) => !/^(status|caller|request_summary)/.test(member));
}

/** Of the request of a record, in the spelling of records. */
export function requestChanges(route: Route): readonly Change[] {
  const { never_recorded, rewritten } = recordRelations.request;
  const skipped: readonly string[] = [...never_recorded, ...rewritten, "understood_obligations"];
  return methods[route].input.fields.flatMap((field): Change[] => {
    if (skipped.includes(field.name)) return [];
    if (field.fieldKind !== "message") {
      const sent = requests[route][field.jsonName];
      return [{ member: field.name, change: { [field.name]: recordedWord(anotherOf(field, sent)) } }];
    }
    return field.message.fields.map(({ name }) => ({
      member: `${field.name}.${name}`,
      change: { [field.name]: { [name]: "another" } },
    }));
  });
}

/** Says which member was changed where the expectation is not met. */
export function named(member: string, expected: Expected): Expected {
  return (step, call) => {
    try {
      expected(step, call);
    } catch (cause) {
      throw new Error(`with another ${member}: ${(cause as Error).message}`, { cause });
    }
  };
}

function anotherAt(
  desc: DescMessage,
  [name = "", ...rest]: readonly string[],
  sample: JsonValue | undefined,
): JsonObject {
  const field = desc.fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${desc.typeName} has no ${name}`);
  const inner = (sample as JsonObject | undefined)?.[field.jsonName];
  if (rest.length > 0 && field.fieldKind === "message")
    return { [field.jsonName]: anotherAt(field.message, rest, inner) };
  return { [field.jsonName]: anotherOf(field, inner) };
}

/** A value in protobuf JSON that is not the one given. */
function anotherOf(field: DescField, value: JsonValue | undefined): JsonValue {
  switch (field.fieldKind) {
    case "enum": {
      const names = field.enum.values.filter(({ number }) => number !== 0).map(({ name }) => name);
      return names.find((name) => name !== value) ?? "";
    }
    case "list":
      return field.listKind === "message" ? [{ id: "another" }] : [...((value ?? []) as JsonValue[]), "another"];
    case "map":
      return { another: "value" };
    case "message":
      return { mode: "another" };
    case "scalar":
      if (field.scalar === ScalarType.BOOL) return value !== true;
      return field.scalar === ScalarType.STRING ? "another:value" : Number(value ?? 0) + 1;
  }
}

/** The word of an enumeration's value in records. */
function recordedWord(value: JsonValue): JsonValue {
  const [, word] =
    /^(?:PROTECTION_OPERATION|KEY_ACCESS_OPERATION|ARTIFACT_PROFILE|ARTIFACT_KIND|EVIDENCE_EVENT_TYPE)_(.+)$/.exec(
      String(value),
    ) ?? [];
  return word?.toLowerCase() ?? value;
}
