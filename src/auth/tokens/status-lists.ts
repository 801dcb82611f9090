/** Tokens that can be called back: their issuer's Token Status Lists (draft-ietf-oauth-status-list), looked up and kept. */
import { promisify } from "node:util";
import { inflate } from "node:zlib";
import { decodeProtectedHeader, type JWTPayload, jwtVerify } from "jose";
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import type { ServiceError } from "../../base/errors.ts";
import type { Sums } from "../../base/sums.ts";
import { refusedToken, signatureAlgorithms, statusUnknown } from "../challenge.ts";
import type { FindKeys } from "./candidate-keys.ts";
import { type FetchContext, fetchAnswer } from "./issuer-documents.ts";
import { createRefetchBudget } from "./refetch-budget.ts";
import { untilAborted } from "./until-aborted.ts";

/** Longest list that is read, as it is sent, and unpacked: 64 million tokens of one bit. */
const maximumListBytes = 4 * 1024 * 1024;
const maximumUnpackedBytes = 8 * 1024 * 1024;
/** Unpacked lists of one issuer that are kept; the one that was not used for longest goes first. */
const maximumKeptBytes = 16 * 1024 * 1024;
/** Longest time that a list is not fetched again, whatever its `ttl` says: what is called back ends within it. */
const maximumAgeSeconds = 5 * 60;
/** Lists of one issuer that are fetched in a period, by all threads together. */
const fetchBudgetSize = 20;
const fetchBudgetRefillMs = 30_000;
/** Calls that wait for lists of one issuer, of one thread. */
const maximumWaiting = 1_000;
const retryAfterSeconds = 1;

const unpack = promisify(inflate);

/** What a token's status says of it; both absent where it names none. */
export interface StatusFinding {
  readonly refusal?: ServiceError;
  /** Until when this holds, in milliseconds since the Unix epoch. */
  readonly lookAgainAtMs?: number;
}

/** @throws ServiceError `issuer_unavailable` where the status cannot be known: then the token is not good */
export type CheckStatus = (payload: JWTPayload, signal: AbortSignal) => Promise<StatusFinding>;

export interface StatusListOptions extends FetchContext {
  readonly issuer: string;
  /** How the URLs of its lists begin; canonical, with a slash at the end. */
  readonly prefixes: readonly string[];
  /** The issuer's keys, which sign lists too. */
  readonly findKeys: FindKeys;
  readonly keyRevision: () => number | undefined;
  readonly clock: Clock;
  readonly clockToleranceSeconds: number;
  /** Counts fetches of all threads of the service; absent where there is one. */
  readonly fetches?: Sums | undefined;
  /** Told how each fetch went: the failure, or none. Must not throw. */
  readonly onFetched: (failure: string | undefined) => void;
}

interface StatusList {
  readonly statuses: Uint8Array;
  /** Of each status. */
  readonly bits: number;
  readonly usableUntilMs: number;
  /** Of the keys that verified it. */
  readonly keyRevision: number | undefined;
}

export function createStatusLists(options: StatusListOptions): CheckStatus {
  const { clock, prefixes, fetches, keyRevision, onFetched } = options;
  const budget = createRefetchBudget(fetchBudgetSize, fetchBudgetRefillMs, clock, fetches);
  const kept = new LRUCache<string, StatusList>({
    maxSize: maximumKeptBytes,
    sizeCalculation: ({ statuses }) => Math.max(1, statuses.byteLength),
  });
  const fetching = new Map<string, Promise<StatusList | ServiceError>>();
  let waiting = 0;

  function usable(uri: string): StatusList | undefined {
    const list = kept.get(uri);
    return list !== undefined && clock.now() < list.usableUntilMs && list.keyRevision === keyRevision()
      ? list
      : undefined;
  }

  async function fetchList(uri: string): Promise<StatusList | ServiceError> {
    try {
      const list = await readList(await fetchToken(uri, options), uri, options);
      kept.set(uri, list);
      onFetched(undefined);
      return list;
    } catch (error) {
      const failure = error instanceof Error ? error.message : "unknown error";
      onFetched(failure);
      return statusUnknown(retryAfterSeconds, failure);
    }
  }

  async function listAt(uri: string, signal: AbortSignal): Promise<StatusList> {
    const known = usable(uri);
    if (known !== undefined) return known;
    if (waiting >= maximumWaiting) throw statusUnknown(retryAfterSeconds, "too many calls wait for status lists");
    let under = fetching.get(uri);
    if (under === undefined) {
      if (!budget.take())
        throw statusUnknown(Math.ceil(budget.refillInMs() / 1000), "no fetch of a status list is left");
      under = fetchList(uri).finally(() => fetching.delete(uri));
      fetching.set(uri, under);
    }
    waiting += 1;
    try {
      const late = () => statusUnknown(retryAfterSeconds, "the caller's deadline came first");
      const list = await untilAborted(under, signal, late);
      if (list instanceof Error) throw list;
      return list;
    } finally {
      waiting -= 1;
    }
  }

  return async ({ status }, signal) => {
    // A claim of that name that is no object is somebody's own.
    if (typeof status !== "object" || status === null) return {};
    const reference = referenceIn(status);
    if (reference === undefined || !isWithin(reference.uri, prefixes)) {
      return { refusal: refusedToken("invalid_token", "the status of the access token is not one that is looked up") };
    }
    const { statuses, bits, usableUntilMs } = await listAt(reference.uri, signal);
    const value = statusAt(statuses, bits, reference.idx);
    const lookAgainAtMs = usableUntilMs;
    // §7: 0 is valid; 1 invalid, 2 suspended, and what others mean is not known here.
    if (value === 0) return { lookAgainAtMs };
    return {
      refusal: refusedToken("invalid_token", "the access token was called back", "token status"),
      lookAgainAtMs,
    };
  };
}

/** `status_list` of the claim (§6.2); undefined for another mechanism, which nothing here can look up. */
function referenceIn(status: object): { readonly idx: number; readonly uri: string } | undefined {
  const list: unknown = "status_list" in status ? status.status_list : undefined;
  if (typeof list !== "object" || list === null || !("idx" in list) || !("uri" in list)) return undefined;
  const { idx, uri } = list;
  if (typeof idx !== "number" || !Number.isSafeInteger(idx) || idx < 0 || typeof uri !== "string") return undefined;
  return { idx, uri };
}

/** Compared as text, and so only in the spelling that a URL is requested in: `..` and the like are none. */
function isWithin(uri: string, prefixes: readonly string[]): boolean {
  return !uri.includes("#") && URL.parse(uri)?.href === uri && prefixes.some((prefix) => uri.startsWith(prefix));
}

/** §4.1: the first status is in the lowest bits of the first byte. Beyond the list: undefined, which is not valid (§8.3). */
function statusAt(statuses: Uint8Array, bits: number, idx: number): number | undefined {
  const each = 8 / bits;
  const byte = statuses[Math.floor(idx / each)];
  return byte === undefined ? undefined : (byte >> ((idx % each) * bits)) & (2 ** bits - 1);
}

function fetchToken(uri: string, context: FetchContext): Promise<string> {
  const init = { accept: "application/statuslist+jwt", maximumBytes: maximumListBytes };
  return fetchAnswer(new URL(uri), "status list", context, init, (text, { headers }) => {
    const [type = ""] = (headers.get("content-type") ?? "").split(";");
    if (type.trim().toLowerCase() !== init.accept) throw new Error("not application/statuslist+jwt");
    return text.trim();
  });
}

/** Verifies a Status List Token (§5.1, §8.3). @throws Error naming what is wrong */
async function readList(
  token: string,
  uri: string,
  { issuer, findKeys, keyRevision, clock, clockToleranceSeconds, signal }: StatusListOptions,
): Promise<StatusList> {
  const nowMs = clock.now();
  const { alg = "", kid } = decodeProtectedHeader(token);
  if (!signatureAlgorithms.includes(alg)) throw new Error("the status list has another algorithm");
  const keys = await findKeys({ alg, ...(kid !== undefined && { kid }) }, signal, () => {});
  const revision = keyRevision();
  const rules = {
    ...{ algorithms: signatureAlgorithms, typ: "statuslist+jwt", subject: uri, requiredClaims: ["iat"] },
    ...{ clockTolerance: clockToleranceSeconds, currentDate: new Date(nowMs) },
  };
  const verified = await Promise.any(keys.map((key) => jwtVerify(token, key, rules))).catch((error: AggregateError) => {
    throw new Error("the status list does not verify", { cause: error.errors[0] });
  });
  const { iss = issuer, iat = 0, exp, ttl = maximumAgeSeconds, status_list: list } = verified.payload;
  if (iss !== issuer) throw new Error("the status list is another issuer's");
  if (iat * 1000 > nowMs + clockToleranceSeconds * 1000) throw new Error("the status list is of the future");
  if (typeof ttl !== "number" || !(ttl > 0)) throw new Error("the status list has no valid ttl");
  const { bits, lst } = (list ?? {}) as { readonly bits?: unknown; readonly lst?: unknown };
  if ((bits !== 1 && bits !== 2 && bits !== 4 && bits !== 8) || typeof lst !== "string" || !/^[\w-]+$/.test(lst))
    throw new Error("the status list is malformed");
  const statuses = await unpack(Buffer.from(lst, "base64url"), { maxOutputLength: maximumUnpackedBytes });
  const usableUntilMs = Math.min(
    nowMs + Math.min(ttl, maximumAgeSeconds) * 1000,
    exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000,
  );
  return { statuses, bits, usableUntilMs, keyRevision: revision };
}
