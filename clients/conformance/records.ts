/** What is recorded, once for each key, and the receipts of it. */
import type { DescMessage, JsonObject, MessageShape } from "@bufbuild/protobuf";
import type { ServerState } from "./calls.ts";
import { briefOf } from "./log.ts";
import type { Route } from "./protocol.ts";
import { merged, recordOf, resultMembers } from "./requests.ts";

/** What one record is made of. */
export interface ToRecord {
  readonly route: Route;
  readonly request: MessageShape<DescMessage>;
  /** Absent, and of decisions: no other call is this one again. */
  readonly key?: string | undefined;
}

/**
 * Records each, and returns what its answer carries of it: the same id for the same key, and receipts of one tree.
 *
 * @param detail of the receipts, as `x-svc-receipt` has it
 */
export function recordAll(state: ServerState, all: readonly ToRecord[], detail: string): object[] {
  const { records, script } = state;
  const recorded = all.map(({ route, request, key }) => {
    const member = resultMembers[route];
    if (member === undefined) return undefined;
    const own = member === "decision" || key === undefined ? `unkeyed ${records.size}` : key;
    const name = `${route} ${script.receipts?.isShared === true ? "shared" : own}`;
    const id = records.get(name) ?? `01890a5d-ac96-774b-bcce-${String(records.size).padStart(12, "0")}`;
    records.set(name, id);
    return { member, id, record: recordOf(route, request, id) };
  });
  const byId = new Map(recorded.flatMap((one) => (one === undefined ? [] : [[one.id, one.record] as const])));
  const receipts = receiptsOf(state, [...byId.values()], detail);
  const receiptsById = new Map([...byId.keys()].map((id, i) => [id, receipts[i]]));
  return recorded.map((one) => {
    if (one === undefined) return {};
    const receipt = receiptsById.get(one.id);
    const decisionId = one.member === "decision" ? { decisionId: one.id } : {};
    return { [one.member]: { ...(receipt !== undefined && { receipt }), ...decisionId } };
  });
}

function receiptsOf(
  state: ServerState,
  records: readonly ReturnType<typeof recordOf>[],
  detail: string,
): (JsonObject | undefined)[] {
  const { script, log } = state;
  const { receipts } = script;
  if (receipts === undefined || log === undefined || detail === "none" || records.length === 0) return [];
  const { record: edit = {}, records: edits = [], change = (receipt) => receipt, only } = receipts;
  const numbers = records.map(() => state.receipts++);
  const isChanged = numbers.map((number) => [undefined, number].includes(only));
  const edited = records.map((record, i) => (isChanged[i] ? merged(record, edit) : record));
  const whole = log.appendAll(edited.map((record, i) => merged(record, edits[numbers[i] as number] ?? {})));
  return whole.map((receipt, i) => {
    const sent = detail === "full" ? receipt : briefOf(receipt);
    return isChanged[i] ? change(sent) : sent;
  });
}
