/** A witness over HTTP: C2SP tlog-witness `add-checkpoint`. */
import { createSemaphore } from "../../base/fair-queue.ts";
import { fetchProblem, readText } from "../../base/fetched.ts";
import { type Timers, withTimeLimit } from "../../base/timers.ts";
import { parseCosignerKey } from "./cosignature.ts";
import { parseWitnessSize, type TrustedWitness, type WitnessAnswer, type WitnessClient } from "./witness-log.ts";

interface HttpMachine {
  readonly fetch: typeof globalThis.fetch;
  readonly timers: Timers;
}

/** For one exchange, from connecting to the last byte of the answer. Milliseconds. */
const exchangeTimeoutMs = 2_000;
/** Signatures of a few keys of any C2SP type have less than 16 KiB. */
const maxAnswerBytes = 16 * 1024;
/** Concurrent exchanges with one witness, and exchanges that wait: a deployment has a log per tenant. */
const maxExchanges = 16;
const maxWaiting = 1_000_000;

/** Content type of a 409 with a size (C2SP tlog-witness, "add-checkpoint"). */
const sizeType = "text/x.tlog.size";

function httpWitness(url: string, { fetch, timers }: HttpMachine): WitnessClient {
  const target = `${url.replace(/\/+$/, "")}/add-checkpoint`;
  const slots = createSemaphore(maxExchanges, maxWaiting);
  const never = new AbortController().signal;

  async function exchange(body: string): Promise<WitnessAnswer> {
    const late = () => new Error(`no answer within ${exchangeTimeoutMs} ms`);
    const work = async (signal: AbortSignal) => {
      const response = await fetch(target, {
        method: "POST",
        headers: { "content-type": "text/plain; charset=utf-8" },
        body,
        // Only the configured host may be used.
        redirect: "manual",
        signal,
      });
      return answerOf(response, await readText(response, maxAnswerBytes));
    };
    return withTimeLimit(timers, exchangeTimeoutMs, late, work).catch((cause: unknown) => {
      throw new Error(fetchProblem(cause), { cause });
    });
  }

  return { addCheckpoint: (body) => slots.run(() => exchange(body), never) };
}

function answerOf({ status, headers }: Response, text: string): WitnessAnswer {
  if (status === 200) return { kind: "cosigned", lines: text };
  if (status === 404) return { kind: "unknown_log" };
  if (status === 403) return { kind: "untrusted_key" };
  if (status === 422) return { kind: "inconsistent" };
  if (status !== 409) throw new Error(`status ${status}`);
  return { kind: "conflict", size: headers.get("content-type") === sizeType ? parseWitnessSize(text) : undefined };
}

/** A configured witness. */
interface NamedWitness {
  /** Verifier key of its cosignatures (C2SP vkey, type 4). */
  readonly key: string;
  /** Submission prefix (C2SP tlog-witness), with or without a trailing slash. */
  readonly url: string;
}

/** The witnesses of `SVC_WITNESSES`. Throws, naming the setting, for an invalid key. */
export function trustedWitnesses(witnesses: readonly NamedWitness[], machine: HttpMachine): readonly TrustedWitness[] {
  return witnesses.map(({ key, url }) => {
    const verifier = parseCosignerKey(key);
    if (verifier === undefined) throw new Error("SVC_WITNESSES: names a key that is not for Ed25519 cosignatures");
    return { verifier, client: httpWitness(url, machine) };
  });
}
