import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type BulkStreamService,
  StreamEventsRequestSchema,
  StreamRegistrationsRequestSchema,
} from "../../../gen/platform/bulk/v1/streams_pb.ts";
import { refusedToken } from "../../auth/challenge.ts";
import { expiryOf } from "../../base/caller.ts";
import { invalidRequests, overloaded, ServiceError } from "../../base/errors.ts";
import { callerOf, callOf } from "../calls/call.ts";
import type { Inlet } from "../calls/inlet.ts";
import { type Rules, rulesOf } from "../codec/rules.ts";
import { answersIn, handleItems, itemMembers } from "./bulk.ts";
import { type BulkRecordDependencies, events, type RecordKind, registrations } from "./records.ts";

interface Numbered<Item> extends Message {
  readonly sequence: bigint;
  readonly item?: Item | undefined;
}

const eventRules = rulesOf(StreamEventsRequestSchema);
const registrationRules = rulesOf(StreamRegistrationsRequestSchema);

/**
 * The bulk stream service: items are handled as in `platform.bulk.v1.BulkRecordService`.
 *
 * @param idleTimeoutMs milliseconds without an item after which a stream ends
 */
export function createBulkStreamService(
  dependencies: BulkRecordDependencies,
  idleTimeoutMs: number,
): ServiceImpl<typeof BulkStreamService> {
  return {
    streamEvents: (requests, context) =>
      acknowledged(requests, context, dependencies, idleTimeoutMs, eventRules, events),
    streamRegistrations: (requests, context) =>
      acknowledged(requests, context, dependencies, idleTimeoutMs, registrationRules, registrations),
  };
}

/** Yields the answers to items in batches, each once all of it is durable or refused. Throws if the stream must end. */
async function* acknowledged<
  Item extends { readonly idempotencyKey: string },
  Request extends Numbered<Item>,
  Answer,
  Members extends { readonly warnings: string[] },
>(
  requests: AsyncIterable<Request>,
  context: HandlerContext,
  dependencies: BulkRecordDependencies,
  idleTimeoutMs: number,
  rules: Rules,
  { record, membersOf, artifactBytesOf }: RecordKind<Item, Answer, Members>,
) {
  const call = callOf(context);
  const { signal } = context;
  if (call.feed === undefined) throw new ServiceError("internal", "stream invoked without a feed");
  const { stopping, stillAllowed } = call.feed;
  const inlet = call.feed.inlet as Inlet<Request>;
  // Items are counted with their batch.
  call.recordedItems = 0;
  call.streamedItems = 0;
  // As for items of a bulk call.
  call.receiptDetail ??= "brief";
  void inlet.read(requests);
  for (;;) {
    const leftMs = expiryOf(callerOf(context)) - dependencies.clock.now();
    if (leftMs <= 0) throw expired();
    const limit =
      leftMs < idleTimeoutMs ? { afterMs: leftMs, refusal: expired } : { afterMs: idleTimeoutMs, refusal: idle };
    const batch = await inlet.take(limit, stopping);
    if (batch === undefined && stopping.aborted) throw overloaded("the service is stopping: reconnect");
    if (batch === undefined) return;
    // Credentials may have been revoked since the last items: nothing more is recorded then.
    await stillAllowed();
    const artifactBytes = batch.reduce((sum, { item }) => sum + (item === undefined ? 0 : artifactBytesOf(item)), 0);
    const settle = await dependencies.takeItems(call, batch.length, signal, artifactBytes);
    const results = await handleItems(dependencies.ledger, context, settle, {
      count: batch.length,
      handle: async (index, identity, ledger) =>
        record({ ...dependencies, ledger }, identity, itemOf<Item>(batch[index] as Request, rules), signal),
    });
    call.ticket?.park();
    call.streamedItems += batch.length;
    settle(answersIn(results));
    yield {
      items: batch.map(({ sequence, item }, i) => ({
        sequence,
        result: {
          ...itemMembers<Answer, Members>(results[i], (answer) => membersOf(context, answer)),
          idempotencyKey: item?.idempotencyKey ?? "",
        },
      })),
    };
  }
}

/** Throws `invalid_request`, which names members by their paths in the item. */
function itemOf<Item>(request: Numbered<Item>, rules: Rules): Item {
  const violations = rules(request);
  if (violations.length > 0)
    throw invalidRequests(
      violations.map(({ field, ...others }) => ({ field: field.replace(/^item\./, ""), ...others })),
    );
  return request.item as Item;
}

function idle(): ServiceError {
  return new ServiceError("request_timeout", "no item arrived in time");
}

function expired(): ServiceError {
  return refusedToken("expired_token", "the access token has expired");
}
