/**
 * What follows from a record, by the table that all packages share
 * (`clients/conformance/vectors/record-relations.json`): members of the answer, the request, the caller and the time.
 */
import {
  create,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { recordRelations } from "../../../../gen/record-relations.ts";
import { toRouteJson } from "../json-spelling.ts";

export type RecordedRoute = keyof typeof recordRelations.routes;

interface Condition {
  readonly at: string;
  readonly is?: JsonValue;
}

/** A value that follows from a record. The first present one of `list`, `has`, `count`, `at` and `value` defines it. */
interface Settled {
  readonly when?: readonly Condition[];
  readonly value?: JsonValue | readonly string[];
  readonly at?: string;
  readonly else?: JsonValue | readonly string[];
  readonly has?: string;
  readonly count?: string;
  readonly list?: readonly Settled[];
}

interface Row extends Settled {
  readonly member: string;
  readonly of?: readonly RecordedRoute[];
}

const answerRows: readonly Row[] = recordRelations.answer;
const callerRows: readonly Row[] = recordRelations.whoami;
const { request: requestRules } = recordRelations;

/**
 * Returns the members of an answer that differ from the record, such as `decision.allow`.
 *
 * @param said the answer, or a part of it, in the spelling of the JSON routes
 * @param isTold whether the answer has a member like this one. Default: the answer is complete, and a missing member
 *   differs
 */
export function answerDifferences(
  route: RecordedRoute,
  said: JsonObject,
  record: JsonObject,
  isTold: (member: string) => boolean = () => true,
): readonly string[] {
  const { kind } = recordRelations.routes[route];
  const own = record.kind === kind && record.route === `/v1/sdk/${route}` ? [] : ["route"];
  const rows = answerRows.filter(({ member, of, when = [] }) => {
    return (of?.includes(route) ?? true) && isTold(member) && when.every((one) => holds(one, record));
  });
  const first = new Map(rows.toReversed().map((row) => [row.member, row]));
  const differing = [...first.values()].filter((row) => !same(at(said, row.member), settled(row, record)));
  return [...own, ...differing.map(({ member }) => member)];
}

/**
 * Returns the members of the record's request that differ from what was sent, such as `labels`.
 *
 * @param sent in the recorded form of requests: see `recordedForm`
 */
export function requestDifferences(sent: JsonObject, record: JsonObject): readonly string[] {
  const recorded = objectOf(record.request);
  const names = new Set([...Object.keys(sent), ...Object.keys(recorded)]);
  return [...names].filter((name) => {
    // The service removes possible secrets, so that something else, or nothing, is recorded.
    if (isAmong(requestRules.rewritten, name)) return sent[name] === undefined;
    return !same(sent[name], recorded[name]);
  });
}

/** A request in its recorded form: optional members without a value are absent, as are an artifact's bytes. */
export function recordedForm<Desc extends DescMessage>(desc: Desc, request: MessageInitShape<Desc>): JsonObject {
  return normal(desc, toRouteJson(desc, create(desc, request) as MessageShape<Desc>));
}

function normal(desc: DescMessage, json: JsonObject): JsonObject {
  const members = desc.fields.flatMap((field): [string, JsonValue][] => {
    const { name } = field;
    const value = json[name];
    if (value === undefined || isAmong(requestRules.never_recorded, name)) return [];
    const isOptional = field.presence === FeatureSet_FieldPresence.EXPLICIT;
    const isEmpty = value === "" || (field.fieldKind === "enum" && value === "unspecified");
    if (isOptional && isEmpty) return [];
    if (isAmong(requestRules.left_out_if_empty, name) && Array.isArray(value) && value.length === 0) return [];
    if (isAmong(requestRules.zero_time, name) && typeof value === "string" && zeroTime.test(value)) return [];
    return [[name, field.fieldKind === "message" ? normal(field.message, objectOf(value)) : value]];
  });
  return Object.fromEntries(members);
}

/** 0001-01-01T00:00:00Z, which callers send for an absent time. */
const zeroTime = /^0001-01-01[Tt]00:00:00(\.0+)?([Zz]|[+-]00:00)$/;

/** Returns the members of the record's caller that differ from `whoami`, such as `principal_id`. */
export function callerDifferences(
  route: RecordedRoute,
  caller: Readonly<Record<string, string | undefined>>,
  record: JsonObject,
): readonly string[] {
  return callerRows
    .filter(({ member, of }) => (of?.includes(route) ?? true) && caller[member] !== undefined)
    .filter((row) => !same(caller[row.member], settled(row, record)))
    .map(({ member }) => member);
}

/** Whether the record's time can be the call's. Times are milliseconds since the Unix epoch. */
export function isTimely(record: JsonObject, fromMs: number | undefined, toMs: number): boolean {
  const toleranceMs = recordRelations.time.tolerance_seconds * 1000;
  const atMs = Date.parse(String(record.recorded_at));
  return atMs <= toMs + toleranceMs && (fromMs === undefined || atMs >= fromMs - toleranceMs);
}

function holds({ at: path, is }: Condition, record: JsonObject): boolean {
  const value = at(record, path);
  return is === undefined ? value !== undefined : same(value, is);
}

/** Undefined if the record implies that there is no value. */
function settled(row: Settled, record: JsonObject): JsonValue | undefined {
  if (row.list !== undefined) {
    const items = row.list.filter(({ when = [] }) => when.every((one) => holds(one, record)));
    return items.flatMap((item) => settled(item, record) ?? []);
  }
  if (row.has !== undefined) return at(record, row.has) !== undefined;
  if (row.count !== undefined) return Object.keys(at(record, row.count) ?? {}).length;
  const value = row.at === undefined ? row.value : (at(record, row.at) ?? row.else);
  return value as JsonValue | undefined;
}

/** The value at a dotted path. */
export function at(value: JsonValue | undefined, path: string): JsonValue | undefined {
  return path.split(".").reduce<JsonValue | undefined>((inner, member) => {
    const members = objectOf(inner);
    return Object.hasOwn(members, member) ? members[member] : undefined;
  }, value);
}

/** Whether two values are equal; an absent value equals only another absent one. */
export function same(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]))
  );
}

export function objectOf(value: JsonValue | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

function isAmong(names: readonly string[], name: string): boolean {
  return names.includes(name);
}
