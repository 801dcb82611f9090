/** Bulk calls, and what they share with streams: each item is answered as its single call is. */
import {
  create,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { EventItem, RegistrationItem } from "../../gen/platform/bulk/v1/records_pb.ts";
import { RecordEvidenceRequestSchema } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import type { ServerState } from "./calls.ts";
import { type BulkRoute, bulkRoutes } from "./protocol.ts";
import { recordAll, type ToRecord } from "./records.ts";
import { answers, heading, merged, methods, resultMembers, singleRoutes } from "./requests.ts";
import type { SeenRoute } from "./script.ts";

export function isBulk(route: SeenRoute): route is BulkRoute {
  return (bulkRoutes as readonly string[]).includes(route);
}

/** Members of results that a script wants otherwise, by place. */
export type ItemChanges = Readonly<Record<number, JsonObject>>;

/** The answer to a bulk call: an item for each of the request's. */
export function bulkAnswer(
  state: ServerState,
  route: BulkRoute,
  request: MessageShape<DescMessage>,
  detail: string,
  change: object,
  changes: ItemChanges,
): MessageShape<DescMessage> {
  const { items } = request as unknown as { readonly items: readonly MessageShape<DescMessage>[] };
  const results = resultsOf(
    state,
    items.map((item) => questionOf(route, item)),
    detail,
    changes,
  );
  const json = merged({ ...heading, items: results }, change) as JsonObject;
  return fromJson(methods[route].output, json);
}

function questionOf(route: BulkRoute, item: MessageShape<DescMessage>): ToRecord {
  if (route === "bulk/evidence" || route === "bulk/artifact-registrations")
    return recordingOf(item as EventItem | RegistrationItem);
  return { route: singleRoutes[route], request: item };
}

/** What an item with a key asks to record. */
export function recordingOf(item: EventItem | RegistrationItem): ToRecord {
  const { idempotencyKey: key } = item;
  const isEvent = item.$typeName === "platform.bulk.v1.EventItem";
  const route = isEvent ? "evidence" : "artifact-register";
  const asked = isEvent ? item.event : item.registration;
  return { route, key, request: asked ?? create(isEvent ? RecordEvidenceRequestSchema : methods[route].input) };
}

/**
 * Results of the items, as protobuf JSON. One that the script gives another outcome than `answered` is not recorded; nor
 * is one without a key that has the form of one, which is refused.
 */
export function resultsOf(
  state: ServerState,
  asked: readonly ToRecord[],
  detail: string,
  changes: ItemChanges,
): JsonObject[] {
  const unanswered = asked.map(({ route, key }, i): JsonObject | undefined => {
    const { outcome } = changes[i] ?? {};
    if (outcome !== undefined && outcome !== "ITEM_OUTCOME_ANSWERED") return changes[i];
    const isKeyed = route === "evidence" || route === "artifact-register";
    return isKeyed && !/^[!-~]{1,128}$/.test(key ?? "") ? badKey : undefined;
  });
  const recorded = recordAll(
    state,
    asked.filter((_, i) => unanswered[i] === undefined),
    detail,
  );
  return asked.map(({ route, key }, i) => {
    const own: JsonObject = key === undefined ? {} : { idempotencyKey: key };
    if (unanswered[i] !== undefined) return { ...own, ...unanswered[i] };
    const sample = { outcome: "ITEM_OUTCOME_ANSWERED", ...own, ...membersOf(answers[route], route) };
    return merged(merged(sample, recorded.shift() ?? {}), changes[i] ?? {}) as JsonObject;
  });
}

const badKey: JsonObject = {
  outcome: "ITEM_OUTCOME_REFUSED",
  error: { code: "invalid_argument", reason: "invalid_request", message: "no idempotency key" },
};

/** The members of a single answer that an item's has too. */
function membersOf(answer: JsonObject, route: ToRecord["route"]): Record<string, JsonValue> {
  const names = [resultMembers[route] ?? "", "execution", "handling"];
  return Object.fromEntries(names.flatMap((name) => (answer[name] === undefined ? [] : [[name, answer[name]]])));
}
