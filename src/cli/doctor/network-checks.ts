/** What of the network a service needs: its issuer and its witnesses. Both tell the time as well. */
import { askIssuer } from "../../auth/tokens/introspection-client.ts";
import { discoverKeySetUrl, fetchKeySet } from "../../auth/tokens/issuer-documents.ts";
import { systemClock } from "../../base/clock.ts";
import type { IntrospectionRule, IssuerEntry } from "../../base/issuers.ts";
import { createSemaphore } from "../../base/semaphore.ts";
import { systemTimers } from "../../base/timers.ts";
import { parseIssuerFile } from "../../config/issuer-file.ts";
import { loadConfig, systemFiles } from "../../config/load.ts";
import { type Check, clockFinding, type Finding, failed, ok, skipped, warning } from "./finding.ts";

/** For one exchange; the service itself waits no longer. */
const exchangeTimeoutMs = 5_000;
/** Issuers that are asked at a time. */
const maximumExchanges = 16;

const askedRemedy =
  "let this machine reach the endpoint, and have the issuer know the client and its secret or certificate; until then " +
  "every call with a token of it is answered 503";
const issuerRemedy =
  "let this machine reach the issuer, and SVC_OIDC_ISSUER or SVC_OIDC_ISSUERS name it as its discovery document does; " +
  "until then every call with a token of it is answered 503";

export function issuerCheck(configPath: string | undefined): Check {
  return {
    name: "issuer",
    remedy: issuerRemedy,
    async look(signal) {
      const loaded = loadConfig("issuer", configPath);
      if (!("config" in loaded)) return [skipped("issuer", "its settings are wrong")];
      const { authMode, oidcIssuer, oidcIssuers } = loaded.config;
      const isTaken = authMode !== "trusted_headers";
      if (isTaken && oidcIssuers !== undefined) {
        const entries = parseIssuerFile(systemFiles.readText(oidcIssuers), loaded.config);
        const slots = createSemaphore(maximumExchanges, entries.length);
        const checked = entries.map((entry) => slots.run(() => lookAtEntry(entry, signal), signal));
        return (await Promise.all(checked)).flat();
      }
      if (!isTaken || oidcIssuer === undefined) return [skipped("issuer", "no issuer's tokens are taken")];
      return lookAtIssuer(oidcIssuer, signal);
    },
  };
}

function lookAtEntry({ issuer, introspection }: IssuerEntry, signal: AbortSignal): Promise<readonly Finding[]> {
  return introspection === undefined
    ? lookAtIssuer(issuer, signal)
    : lookAtIntrospection(issuer, introspection, signal);
}

/** Asks about a token that nobody has: the issuer says so to a client that it knows. */
async function lookAtIntrospection(
  issuer: string,
  rule: IntrospectionRule,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const clocks: Finding[] = [];
  const context = { timers: systemTimers, timeoutMs: exchangeTimeoutMs, signal };
  try {
    const { active } = await askIssuer(`${rule.tokenPrefix}no-token-of-anybody`, rule, {
      ...context,
      fetch: telling(`the issuer ${issuer}`, clocks),
      readFile: async (path) => systemFiles.readText(path),
    });
    if (active !== false) throw new Error("it takes a token that nobody has for a good one");
    return [ok("issuer", `${issuer} answers about tokens`), ...clocks.slice(0, 1)];
  } catch (error) {
    return [failed("issuer", `${issuer}: ${error instanceof Error ? error.message : "unknown error"}`, askedRemedy)];
  }
}

const leftOutRemedy = "have the issuer publish keys that can be used; tokens that the others sign are refused";

async function lookAtIssuer(issuer: string, signal: AbortSignal): Promise<readonly Finding[]> {
  const clocks: Finding[] = [];
  const context = {
    fetch: telling(`the issuer ${issuer}`, clocks),
    timers: systemTimers,
    timeoutMs: exchangeTimeoutMs,
    signal,
  };
  try {
    const { keys, remark } = await fetchKeySet(await discoverKeySetUrl(issuer, context), context);
    const found = `${issuer} publishes ${keys.length === 0 ? "no" : keys.length} signature keys`;
    const detail = remark === undefined ? found : `${found}; ${remark}`;
    if (keys.length === 0) return [failed("issuer", detail, issuerRemedy)];
    return [(remark === undefined ? ok : warning)("issuer", detail, leftOutRemedy), ...clocks.slice(0, 1)];
  } catch (error) {
    return [failed("issuer", `${issuer}: ${error instanceof Error ? error.message : "unknown error"}`, issuerRemedy)];
  }
}

const witnessRemedy =
  "let this machine reach the witness, or ask whoever runs it; where answers wait for a quorum, calls are answered 503 " +
  "until enough of them cosign";

export function witnessesCheck(configPath: string | undefined): Check {
  return {
    name: "witnesses",
    remedy: witnessRemedy,
    async look(deadline) {
      const loaded = loadConfig("witnesses", configPath);
      if (!("config" in loaded)) return [skipped("witnesses", "their settings are wrong")];
      const { witnesses } = loaded.config;
      if (witnesses.length === 0) return [skipped("witnesses", "none are set")];
      return (await Promise.all(witnesses.map(({ url }) => reach(url, deadline)))).flat();
    },
  };
}

/** Asks for nothing that it would remember: that it answers is enough. */
async function reach(url: string, deadline: AbortSignal): Promise<readonly Finding[]> {
  const clocks: Finding[] = [];
  const signal = AbortSignal.any([deadline, AbortSignal.timeout(exchangeTimeoutMs)]);
  try {
    const answer = await telling(`the witness ${url}`, clocks)(url, { redirect: "manual", signal });
    await answer.body?.cancel();
    const { status } = answer;
    if (status >= 500) return [failed("witnesses", `${url} answers with status ${status}`, witnessRemedy)];
    return [ok("witnesses", `${url} answers`), ...clocks.filter((finding) => finding.status !== "ok")];
  } catch (error) {
    return [failed("witnesses", `${url} does not answer: ${reasonOf(error)}`, witnessRemedy)];
  }
}

/** Fetches, and compares the clocks by the answer's `Date` (RFC 9110 §6.6.1), which has whole seconds. */
function telling(whose: string, clocks: Finding[]): typeof globalThis.fetch {
  return async (input, init) => {
    const beforeMs = systemClock.now();
    const response = await fetch(input, init);
    const theirMs = Date.parse(response.headers.get("date") ?? "");
    // A second that has begun is told as a whole one.
    if (!Number.isNaN(theirMs)) clocks.push(clockFinding(whose, theirMs, beforeMs - 1_000, systemClock.now()));
    return response;
  };
}

/** The runtime's fetch says "fetch failed" and keeps the reason, such as ECONNREFUSED, in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown error";
  const { cause } = error;
  if (cause instanceof Error) return "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
  return error.message;
}
