/** An authenticator in front of a bare issuer, with time in the test's hands. */
import { readFile } from "node:fs/promises";
import { onTestFinished } from "vitest";
import type { AuthenticatorEvent, TokenOptions } from "../../../src/auth/access-tokens.ts";
import { type Authenticator, createAuthenticator, type IdentityHeaderRule } from "../../../src/auth/authenticator.ts";
import type { MutualTlsRule } from "../../../src/auth/confirmation.ts";
import type { DpopRule } from "../../../src/auth/possession.ts";
import type { Clock } from "../../../src/base/clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import { type Network, parseNetwork } from "../../../src/base/network.ts";
import type { Timers } from "../../../src/base/timers.ts";
import { issuerEntry } from "../../harness/issuer.ts";
import { memoryReplayStore } from "../../harness/proofs.ts";
import { must } from "../domain/world.ts";

/** A clock and timers that move only when told to. */
export interface ManualTime extends Clock, Timers {
  /** Moves the clock and runs what has come due. */
  advance(ms: number): void;
  /** Number of timers that are set. */
  pending(): number;
}

export function manualTime(nowMs = 1_800_000_000_000): ManualTime {
  const waiting = new Set<{ dueMs: number; action: () => void }>();
  return {
    now: () => nowMs,
    pending: () => waiting.size,
    after(delayMs, action) {
      const timer = { dueMs: nowMs + delayMs, action };
      waiting.add(timer);
      return () => void waiting.delete(timer);
    },
    advance(ms) {
      nowMs += ms;
      for (const timer of [...waiting]) {
        if (timer.dueMs <= nowMs && waiting.delete(timer)) timer.action();
      }
    },
  };
}

export interface World extends Authenticator {
  readonly events: AuthenticatorEvent[];
  /** Resolves when the next fetch of the issuer's keys has ended, either way. */
  fetched(): Promise<void>;
}

/** Makes an authenticator that is not started yet; it is closed when the test ends. */
export function authenticatorOf(
  issuer: string,
  time: ManualTime,
  options: Partial<TokenOptions> = {},
  identityHeaders?: IdentityHeaderRule,
): World {
  const events: AuthenticatorEvent[] = [];
  let waiting: (() => void)[] = [];
  const authenticator = createAuthenticator(
    {
      tokens: {
        issuers: [issuerEntry(issuer)],
        proofOfPossession: { mode: "none" },
        ...options,
      },
      identityHeaders,
    },
    {
      clock: time,
      timers: time,
      random: () => 0.5,
      fetch: globalThis.fetch,
      readFile: (path) => readFile(path, "utf8"),
      onEvent(event) {
        events.push(event);
        if (event.type !== "issuer_keys_fetched") return;
        for (const resolve of waiting.splice(0)) resolve();
      },
    },
  );
  onTestFinished(() => authenticator.close());
  return {
    ...authenticator,
    events,
    fetched: () =>
      new Promise((resolve) => {
        waiting = [...waiting, resolve];
      }),
  };
}

/** Makes an authenticator that has fetched its issuer's keys, or failed to. */
export async function startedWorld(...given: Parameters<typeof authenticatorOf>): Promise<World> {
  const world = authenticatorOf(...given);
  const fetched = world.fetched();
  world.start();
  await fetched;
  return world;
}

/** A rule of proofs whose uses are kept in memory. */
export function dpopRule(changes: Partial<DpopRule> = {}): DpopRule {
  const replayStore = memoryReplayStore();
  return { mode: "dpop", publicUrl: "https://api.example", replayStore, nonces: undefined, ...changes };
}

/** A rule of certificates that the proxies of a network forward as thumbprints; by default no proxy is trusted. */
export function mtlsRule(...networks: string[]): MutualTlsRule {
  const ingress = { networks: networksOf(...networks), certificates: [] };
  return { mode: "mtls", headerName: "x-svc-mtls-client-certificate", format: "thumbprint", ingress };
}

export const networksOf = (...texts: string[]): readonly Network[] => texts.map((text) => must(parseNetwork(text)));

/** A call with these headers; a list is a header that came several times. */
export function inboundOf(
  headers: Readonly<Record<string, string | readonly string[]>>,
  connection: Partial<Omit<InboundRequest, "headerValues">> = {},
): InboundRequest {
  return {
    headerValues: (name) => [headers[name] ?? []].flat(),
    remoteAddress: "192.0.2.7",
    method: "GET",
    url: "/v1/sdk/whoami",
    ...connection,
  };
}

export function bearer(token: string): InboundRequest {
  return inboundOf({ authorization: `Bearer ${token}` });
}

/** A signal that never aborts. */
export const patient = new AbortController().signal;

/** The refusal that the call was met with. Throws where it was let in, or failed in another way. */
export async function refusalOf(call: Promise<unknown>): Promise<ServiceError> {
  const outcome: unknown = await call.then(
    () => "let in",
    (error: unknown) => error,
  );
  if (outcome instanceof ServiceError) return outcome;
  throw new Error("expected a refusal", { cause: outcome });
}
