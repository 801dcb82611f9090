/**
 * The service's bulk calls behind the interface of its single ones: questions that wait at the same time share a call.
 *
 * An answer belongs to an item only by its content. The caller compares question, answer and receipt of each item, as
 * for a single call; a record that answers two items is refused here, because two items may ask the same.
 */
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { answered, type RecordedItem, receiptOfItem } from "../receipts/items.ts";
import { type BulkClient, type EventResult, type ItemError, PlatformError, type RegistrationResult } from "./client.ts";
import {
  acceptedOf,
  eventRequestOf,
  keyAccessOf,
  keyRequestOf,
  plannedOf,
  planRequestOf,
  registrationRequestOf,
} from "./client-platform.ts";
import { EnforcementError } from "./errors.ts";
import type { EvidenceEvent, KeyQuestion, Platform, ProtectionQuestion, Registration } from "./platform.ts";

/** Most items of a call: of 256 operations, some wait for the service while this process works on others. */
const maxItems = 64;

/** Receipts show which question was answered, so that they must be whole. */
const whole = { headers: { "x-svc-receipt": "full" } };

type Keyed<Payload> = readonly [payload: Payload, idempotencyKey: string];

/** For the items of one `protectMany` or `openMany`: no record may answer two of them. */
export function bulkPlatform(single: Platform, client: BulkClient): Platform {
  /** Record ids, and the item that each answers: a question, or the idempotency key of a record. */
  const owners = new Map<string, unknown>();
  const calls = <Asked, Item extends RecordedItem, Answer>(
    send: (asked: readonly Asked[]) => Promise<{ readonly items: readonly Item[] }>,
    answerOf: (item: Item, asked: Asked) => Answer,
    ownerOf: (asked: Asked) => unknown,
  ) =>
    new SharedCalls<Asked, Answer>(async (asked) => {
      const { items } = await send(asked);
      if (items.length > asked.length) throw notAnswered("the answer has more items than were asked");
      const ids = items.map((item) => receiptOfItem(item)?.recordId ?? "");
      const doubled = new Set<string>();
      for (const [i, id] of ids.entries()) {
        const owner = ownerOf(asked[i] as Asked);
        if (owners.has(id) && owners.get(id) !== owner) doubled.add(id);
        else owners.set(id, owner);
      }
      return asked.map((one, i) => () => {
        const item = requireAnswered(items[i]);
        if (doubled.has(ids[i] ?? "")) throw notAnswered("the record answers another item too");
        return answerOf(item, one);
      });
    });
  const itself = (asked: unknown) => asked;
  const keyOf = ([, idempotencyKey]: Keyed<unknown>) => idempotencyKey;
  const plans = calls(
    (asked: readonly ProtectionQuestion[]) => client.planProtections({ items: asked.map(planRequestOf) }, whole),
    plannedOf,
    itself,
  );
  const keyAccesses = calls(
    (asked: readonly KeyQuestion[]) => client.planKeyAccesses({ items: asked.map(keyRequestOf) }, whole),
    keyAccessOf,
    itself,
  );
  const registrations = calls(
    (asked: readonly Keyed<Registration>[]) => {
      const items = asked.map(([it, idempotencyKey]) => ({ idempotencyKey, registration: registrationRequestOf(it) }));
      return client.registerArtifacts({ items }, whole);
    },
    (item, asked) => acceptedOf(requireKey(item, keyOf(asked)).registration, item.warnings),
    keyOf,
  );
  const events = calls(
    (asked: readonly Keyed<EvidenceEvent>[]) => {
      const items = asked.map(([it, idempotencyKey]) => ({ idempotencyKey, event: eventRequestOf(it) }));
      return client.recordEvents({ items }, whole);
    },
    (item, asked) => acceptedOf(requireKey(item, keyOf(asked)).ingestion, item.warnings),
    keyOf,
  );
  return {
    deployment: (signal) => single.deployment(signal),
    planProtection: (question, signal) => plans.ask(question, signal),
    planKeyAccess: (question, signal) => keyAccesses.ask(question, signal),
    registerArtifact: (registration, key, signal) => registrations.ask([registration, key], signal),
    recordEvidence: (event, key, signal) => events.ask([event, key], signal),
  };
}

function requireAnswered<Item extends RecordedItem>(item: Item | undefined): Item {
  if (item?.error !== undefined) throw refusalOf(item.error);
  if (item?.outcome !== answered) throw notAnswered("the answer has nothing for this item");
  return item;
}

function requireKey<Item extends EventResult | RegistrationResult>(item: Item, idempotencyKey: string): Item {
  if (item.idempotencyKey !== idempotencyKey) throw notAnswered("the answer is of another idempotency key");
  return item;
}

function notAnswered(why: string): EnforcementError {
  return new EnforcementError("unavailable", `the platform gave no valid answer: ${why}`);
}

/** The error of the single call. */
function refusalOf({ code, reason, message, retryAfterSeconds }: ItemError): PlatformError {
  const refusal = new ConnectError(message, codeFromString(code) ?? Code.Unknown);
  refusal.details.push({ desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { reason }) });
  if (retryAfterSeconds !== undefined) refusal.metadata.set("retry-after", String(retryAfterSeconds));
  return PlatformError.from(refusal);
}

interface Waiting<Asked, Answer> {
  readonly asked: Asked;
  readonly settle: (read: () => Answer) => void;
}

/** Questions of one kind. Those that arrive while a call is under way share the next one. */
export class SharedCalls<Asked, Answer> {
  /** Resolves with what reads the answer of each question, or throws. */
  readonly #send: (asked: readonly Asked[]) => Promise<readonly (() => Answer)[]>;
  readonly #waiting: Waiting<Asked, Answer>[] = [];
  #isSending = false;

  constructor(send: (asked: readonly Asked[]) => Promise<readonly (() => Answer)[]>) {
    this.#send = send;
  }

  /** If the signal ends the wait, a call that is under way goes on for the others. */
  ask(asked: Asked, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        const at = this.#waiting.indexOf(waiting);
        if (at >= 0) this.#waiting.splice(at, 1);
        reject(signal?.reason);
      };
      const settle = (read: () => Answer) => {
        signal?.removeEventListener("abort", stop);
        resolve(Promise.resolve().then(read));
      };
      const waiting = { asked, settle };
      if (signal?.aborted === true) return stop();
      signal?.addEventListener("abort", stop, { once: true });
      this.#waiting.push(waiting);
      if (!this.#isSending) void this.#sendWaiting();
    });
  }

  async #sendWaiting(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting.length > 0) {
      // As long as each turn of the event loop brings more questions, they share the call.
      for (let before = 0; before < this.#waiting.length && this.#waiting.length < maxItems; await setImmediate())
        before = this.#waiting.length;
      const batch = this.#waiting.splice(0, maxItems);
      // Meanwhile all may have stopped waiting.
      if (batch.length > 0) await this.#sendBatch(batch);
    }
    this.#isSending = false;
  }

  /** A call whose body the service finds too large becomes two. */
  async #sendBatch(batch: readonly Waiting<Asked, Answer>[]): Promise<void> {
    const answers = await this.#send(batch.map(({ asked }) => asked)).catch((cause: unknown) => cause);
    if (batch.length > 1 && answers instanceof PlatformError && answers.reason === "body_too_large") {
      const half = Math.ceil(batch.length / 2);
      await this.#sendBatch(batch.slice(0, half));
      await this.#sendBatch(batch.slice(half));
      return;
    }
    for (const [i, { settle }] of batch.entries())
      settle(() => {
        if (!Array.isArray(answers)) throw answers;
        return answers[i]();
      });
  }
}
