/** What the services of `platform.bulk.v1` share. */
import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import {
  type ItemError,
  ItemOutcome,
  type RangeLeaf,
  type RangeReceipt,
} from "../../../gen/platform/bulk/v1/common_pb.ts";
import { requireScopes } from "../../auth/authenticator.ts";
import { presentedScheme } from "../../auth/challenge.ts";
import { ServiceError } from "../../base/errors.ts";
import { mapInTurns } from "../../base/timers.ts";
import { type DecisionMembers, type ProvingLedger, proveRange } from "../../domain/answer.ts";
import { type BulkCall, type BulkLedger, handleAll, type ItemResult, type StopRule } from "../../domain/bulk.ts";
import type { DecisionDependencies } from "../../domain/decision.ts";
import type { RecordingLedger } from "../../domain/deployment.ts";
import type { Evaluations, PathedQuestion } from "../../domain/evaluation.ts";
import { platformDomains } from "../../domain/platform-domains.ts";
import type { CallIdentity } from "../../domain/record.ts";
import type { EvaluationRequest } from "../../domain/requests.ts";
import { type Call, callerOf, callOf, type ReceiptDetail } from "../calls/call.ts";
import { mayBeRecorded, type SettleItems } from "../gate/quota.ts";
import { envelope, forMessage, identityOf, platformDomainMessages, receiptDetailOf } from "./messages.ts";

type HandleItem<Answer> = (
  item: Message,
  identity: CallIdentity,
  ledger: RecordingLedger,
  index: number,
) => Promise<Answer>;

/** What the ledger must return for each detail of receipts. */
const shownBy: Readonly<Record<ReceiptDetail, NonNullable<BulkCall<unknown>["shown"]>>> = {
  full: "all",
  cose: "all",
  range: "opening",
  brief: "nothing",
  none: "nothing",
};

/** Parks the call, and resumes it in its turn, after other calls or once the promise resolves. */
async function pause({ ticket }: Call, until?: Promise<void>): Promise<void> {
  ticket?.park();
  await (until ?? new Promise<void>((resolve) => setImmediate(resolve)));
  await ticket?.resume();
}

/** How one kind of item is handled and answered. */
interface BulkKind<Answer, Members> {
  readonly handle: HandleItem<Answer>;
  readonly receiptOf: (answer: Answer) => Receipt;
  /** Members of an item's message. */
  readonly membersOf: (context: HandlerContext, answer: Answer) => Members;
  readonly stopsAfter?: BulkCall<Answer>["stopsAfter"];
}

export interface BulkDependencies extends Pick<DecisionDependencies, "live">, AskingOptions {
  readonly ledger: BulkLedger & ProvingLedger;
}

/**
 * Answers a bulk call: handles its items, and proves their records if the caller asked for one receipt for all. Rejects
 * with `rate_limited`, or as `handleAll`.
 */
export async function answerBulk<Answer, Members extends { readonly warnings: string[] }>(
  service: string,
  { live, ledger, takeItems }: BulkDependencies,
  context: HandlerContext,
  { handle, receiptOf, membersOf, stopsAfter }: BulkKind<Answer, Members>,
) {
  const call = callOf(context);
  const { items: asked } = call;
  if (asked === undefined) throw new ServiceError("internal", "bulk handler invoked without items");
  // The call itself was counted as one of them.
  const settle = asked.count > 1 ? await takeItems(call, asked.count - 1, context.signal) : undefined;
  // Counts all items until the outcome is known.
  call.recordedItems = asked.count;
  const results = await handleItems<Answer>(ledger, context, settle, {
    count: asked.count,
    handle: async (index, identity, own) => handle(asked.read(index), identity, own, index),
    ...(stopsAfter !== undefined && { stopsAfter }),
  });
  call.recordedItems = answersIn(results);
  settle?.(Math.max(0, call.recordedItems - 1));
  const { leaves, receipt } = await rangeMembers(context, ledger, results, receiptOf);
  const items = await mapInTurns(results, (result, i) => ({
    ...itemMembers(result, (answer) => membersOf(context, answer)),
    leaf: leaves[i],
  }));
  const caller = callerOf(context);
  return {
    ...envelope(service, caller),
    platformDomains: platformDomainMessages(platformDomains(live, caller.tenantId)),
    items,
    receipt,
  };
}

/** Handles items as `handleAll` does, in turns of admission, and with as much of receipts as the caller asked for. */
export function handleItems<Answer>(
  ledger: BulkLedger,
  context: HandlerContext,
  settle: SettleItems | undefined,
  items: Omit<BulkCall<Answer>, "shown" | "pause">,
): Promise<readonly ItemResult<Answer>[]> {
  const call = callOf(context);
  const shown = shownBy[receiptDetailOf(call)];
  const bulk = { ...items, shown, pause: (until?: Promise<void>) => pause(call, until) };
  return orGiveBack(settle, async () => {
    await call.ticket?.resume();
    return handleAll<Answer>(ledger, identityOf(context), bulk);
  });
}

/** Number of items that were answered, and so recorded. */
export function answersIn(results: readonly ItemResult<unknown>[]): number {
  return results.filter((result) => result !== undefined && "answer" in result).length;
}

/** Members that every item's message has about its outcome. */
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

// One receipt for a whole bulk call, if the caller asks for it.

type Receipt = DecisionMembers["receipt"];

/**
 * Proves the records of the results: the leaf of each in order, undefined if it has no record. All is undefined if the
 * caller did not ask for a range receipt.
 */
async function rangeMembers<Answer>(
  context: HandlerContext,
  ledger: ProvingLedger,
  results: readonly ItemResult<Answer>[],
  receiptOf: (answer: Answer) => Receipt,
): Promise<{ leaves: readonly (RangeLeaf | undefined)[]; receipt: RangeReceipt | undefined }> {
  if (callOf(context).receiptDetail !== "range") return { leaves: [], receipt: undefined };
  const receipts = results.map((result) => (result && "answer" in result ? receiptOf(result.answer) : undefined));
  const proof = await proveRange(
    ledger,
    receipts.filter((receipt) => receipt !== undefined),
  );
  return {
    leaves: receipts.map((receipt) => receipt && leafMessage(receipt)),
    receipt: proof && {
      $typeName: "platform.bulk.v1.RangeReceipt",
      ...forMessage(proof),
      treeSize: BigInt(proof.treeSize),
    },
  };
}

function leafMessage({ recordId, leafIndex, leafHash, opening }: Receipt): RangeLeaf {
  if (opening === undefined) throw new ServiceError("internal", "a receipt without its opening");
  return { $typeName: "platform.bulk.v1.RangeLeaf", recordId, leafIndex: BigInt(leafIndex), leafHash, opening };
}

// Decides the questions of one call, for all methods that have them: with scopes, quotas and turns of admission.

export interface AskingOptions {
  readonly takeItems: TakeItems;
}

export type Asking = ReturnType<typeof createAsking>;

export function createAsking(evaluations: Evaluations, { takeItems }: AskingOptions) {
  /** Throws a ServiceError `missing_scope` unless the caller has the scopes for all questions. */
  function requireScopesFor(requests: readonly EvaluationRequest[], context: HandlerContext): void {
    const caller = callerOf(context);
    requireScopes(caller, evaluations.scopesFor(caller, requests), presentedScheme(callOf(context).inbound));
  }
  return {
    /** Rejects as `Evaluations.prepare`. */
    prepare: (questions: readonly PathedQuestion[], context: HandlerContext) =>
      evaluations.prepare(callerOf(context), questions, () => pause(callOf(context))),
    requireScopes: requireScopesFor,
    /**
     * Evaluates the questions if the caller has the scopes for all of them. `stopsAfter` may end the evaluation early.
     *
     * @throws ServiceError `missing_scope`, `rate_limited`, or as `Evaluations.evaluate`
     */
    async decide(
      requests: readonly EvaluationRequest[],
      context: HandlerContext,
      stopsAfter?: StopRule,
      isSearch = false,
    ) {
      const identity = { ...identityOf(context), isSearch };
      // Check the scopes of all questions before the first is evaluated.
      requireScopesFor(requests, context);
      const call = callOf(context);
      if (requests.length === 0) call.recordedItems = 0;
      // The call itself was counted as one of them.
      const others = requests.length - 1;
      const settle = others > 0 ? await takeItems(call, others, context.signal) : undefined;
      const evaluate = () => evaluations.evaluate(identity, requests, (until) => pause(call, until), stopsAfter);
      const answers = await orGiveBack(settle, evaluate);
      settle?.(answers.length - 1, answers.length - 1);
      return answers;
    },
  };
}

/** Takes quota for items; resolves with a function that settles how many were recorded. */
export type TakeItems = (
  call: Call,
  count: number,
  signal: AbortSignal,
  artifactBytes?: number,
) => Promise<SettleItems>;

/** Does the work of items. Gives the quota of their records back if it is refused before anything is recorded. */
async function orGiveBack<T>(settle: SettleItems | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof ServiceError && !mayBeRecorded(thrown)) settle?.(0);
    throw thrown;
  }
}
