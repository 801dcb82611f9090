/** What the services of `platform.bulk.v1` share. */
import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type ItemError, ItemOutcome } from "../../../gen/platform/bulk/v1/common_pb.ts";
import { ServiceError } from "../../base/errors.ts";
import { type BulkCall, type BulkLedger, handleAll, type ItemResult } from "../../domain/bulk.ts";
import type { RecordingLedger } from "../../domain/deployment.ts";
import type { CallIdentity } from "../../domain/record.ts";
import { type Call, callOf, type ReceiptDetail } from "../calls/call.ts";
import { identityOf, receiptDetailOf } from "./messages.ts";

/** How one item is handled. */
export type HandleItem<Answer> = (
  item: Message,
  identity: CallIdentity,
  ledger: RecordingLedger,
  index: number,
) => Promise<Answer>;

/** Handles the items of a call. Resolves and rejects as `handleAll`. */
export async function handleItems<Answer>(
  context: HandlerContext,
  ledger: BulkLedger,
  handle: HandleItem<Answer>,
  stopsAfter?: BulkCall<Answer>["stopsAfter"],
): Promise<readonly ItemResult<Answer>[]> {
  const call = callOf(context);
  const { items } = call;
  if (items === undefined) throw new ServiceError("internal", "bulk handler invoked without items");
  // All of them, while nobody knows how it ends.
  call.recordedItems = items.count;
  const results = await handleAll<Answer>(ledger, identityOf(context), {
    count: items.count,
    handle: async (index, identity, own) => handle(items.read(index), identity, own, index),
    ...(stopsAfter !== undefined && { stopsAfter }),
    shown: shownBy[receiptDetailOf(call)],
    pause: (until) => pause(call, until),
  });
  call.recordedItems = results.filter((result) => result !== undefined && "answer" in result).length;
  return results;
}

/** What a ledger needs to show for receipts of some detail. */
export const shownBy: Readonly<Record<ReceiptDetail, NonNullable<BulkCall<unknown>["shown"]>>> = {
  full: "all",
  range: "opening",
  brief: "nothing",
  none: "nothing",
};

/** The call goes on once it is its turn again, as a call that comes now, or once the promise resolves. */
export async function pause({ ticket }: Call, until?: Promise<void>): Promise<void> {
  ticket?.park();
  await (until ?? new Promise<void>((resolve) => setImmediate(resolve)));
  await ticket?.resume();
}

/** Results whose messages are made in one turn of the event loop. */
const madeAtOnce = 64;

/** Makes the messages of the results, and lets others have their turn in between. */
export async function inTurns<Answer, Made>(
  results: readonly ItemResult<Answer>[],
  make: (result: ItemResult<Answer>, index: number) => Made,
): Promise<Made[]> {
  const made: Made[] = [];
  for (const [i, result] of results.entries()) {
    if (i > 0 && i % madeAtOnce === 0) await new Promise(setImmediate);
    made.push(make(result, i));
  }
  return made;
}

/** What an item's message says of what became of it: all members that every such message has. */
export function itemMembers<Answer, Members extends { readonly warnings: string[] }>(
  result: ItemResult<Answer>,
  membersOf: (answer: Answer) => Members,
): ItemHead | (ItemHead & Members) {
  if (result === undefined) return { outcome: ItemOutcome.NOT_EVALUATED, warnings: [] };
  if ("refusal" in result) return { outcome: ItemOutcome.REFUSED, warnings: [], error: itemError(result.refusal) };
  return { outcome: ItemOutcome.ANSWERED, ...membersOf(result.answer) };
}

interface ItemHead {
  readonly outcome: ItemOutcome;
  readonly warnings: string[];
  readonly error?: ItemError;
}

function itemError({ code, reason, message, details }: ServiceError): ItemError {
  const { violations = [], retryAfterSeconds } = details;
  return {
    $typeName: "platform.bulk.v1.ItemError",
    code,
    reason,
    message,
    violations: violations.map((violation) => ({ ...violation, $typeName: "platform.bulk.v1.ItemViolation" })),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
}
