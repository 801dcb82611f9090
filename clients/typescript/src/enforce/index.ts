/**
 * Local enforcement: files and streams of any size are protected, opened and rewrapped in this process, under decisions
 * of the platform, which sees only metadata. docs/enforcement.md has the format and the order of steps.
 */
import { join, resolve } from "node:path";
import { kept, unlessAborted } from "../kept.ts";
import type { BulkClient, PlatformClient } from "./client.ts";
import { platformOf } from "./client-platform.ts";
import { EnforcementError, enforcementError } from "./errors.ts";
import { resourceOf } from "./header.ts";
import { type KeyProvider, requireReference } from "./keys.ts";
import { type Settled, settleAll, sharedContext } from "./many.ts";
import { type OpenOptions, openEnvelope, openEnvelopeRange, type RangeOptions } from "./open.ts";
import type { Context, RequestOptions } from "./operation.ts";
import type { ObligationHandler } from "./permission.ts";
import type { Platform, Resource, Workload } from "./platform.ts";
import { type LocalProfile, localProfiles, type Outcome, type ProtectOptions, protectAsEnvelope } from "./protect.ts";
import { type ProtectedStream, protectStream } from "./protect-stream.ts";
import { withSource } from "./random-access.ts";
import { type Exchange, type ExpectedCaller, requireReceipt } from "./receipt-check.ts";
import { requireLogKeys } from "./receipts.ts";
import { type RewrapOptions, rewrapEnvelope } from "./rewrap.ts";
import { openSigned, signAnew, signData } from "./sign.ts";
import type { SigningKey } from "./signing-keys.ts";
import { EvidenceSpool } from "./spool.ts";
import { openTdf, openTdfRange, protectAsTdf, rewrapTdf } from "./tdf.ts";
import type { TdfKey } from "./tdf-keys.ts";

export { EnforcementError, type EnforcementFailure } from "./errors.ts";
export { createKeyFile, createPublicKeyFile, createSigningKeyFile, createTdfKeyFile, keyFile } from "./key-files.ts";
export { type KeyProvider, localKey } from "./keys.ts";
export type { Settled } from "./many.ts";
export type { OpenOptions, RangeOptions } from "./open.ts";
export type { ObligationHandler } from "./permission.ts";
export type { Platform, Resource, Workload } from "./platform.ts";
export type { LocalProfile, Outcome, ProtectOptions } from "./protect.ts";
export type { ProtectedStream } from "./protect-stream.ts";
export { bytesSource, type RandomAccess } from "./random-access.ts";
export type { ExpectedCaller } from "./receipt-check.ts";
export { type ReceiptsFile, receiptsPathOf } from "./receipts.ts";
export { localSigningKey, type SigningKey } from "./signing-keys.ts";
export type { StreamingAead } from "./streaming-aead.ts";
export { localTdfKey, type TdfKey, type TdfKeyOptions } from "./tdf-keys.ts";
export type { TdfOptions } from "./tdf-manifest.ts";
export { type TransitOptions, transitKey } from "./transit.ts";
export { type VerifiedArtifact, type VerifyOptions, verifyArtifact } from "./verify.ts";

export interface EnforcerOptions {
  /** A client with token, certificate and retries; or the interface itself. Answers must have whole receipts. */
  readonly client: PlatformClient | Platform;
  /**
   * For `protectMany` and `openMany`: bulk calls of the same service. Needs `logKeys`, because only receipts show which
   * item an answer belongs to. Default: a single call for each step of each item.
   */
  readonly bulk?: BulkClient;
  readonly workload: Workload;
  /** Keys by reference; the first suitable one protects by default. `flush` needs none. */
  readonly keys: readonly (KeyProvider | SigningKey | TdfKey)[];
  /** Namespace of TDF attributes, such as `example.com`: labels become attribute values in it. */
  readonly attributeNamespace?: string;
  /** Folder on a local disk for pending evidence. For one machine, and workloads with the same credentials. */
  readonly spoolDirectory: string;
  /** C2SP verifier keys of the tenant's log: if given, answers need a receipt that verifies. */
  readonly logKeys?: readonly string[];
  /**
   * Identity of this workload: with log keys, receipts must name this caller. Default: the caller in `whoami`, which is
   * only as trustworthy as the server at the platform's address.
   */
  readonly caller?: ExpectedCaller;
  /** Handlers for obligations of decisions. Any other obligation causes a refusal. */
  readonly obligations?: Readonly<Record<string, ObligationHandler>>;
  /** Supported handling modes. Default: `local_embedded_enforcement` only. */
  readonly handlingModes?: readonly string[];
  /**
   * How long evidence may be pending if no decision says so (obligation `evidence-within`), in milliseconds; otherwise
   * the shorter time counts. Default: nothing is released before its event is on the ledger.
   */
  readonly evidenceToleranceMs?: number;
  /** Milliseconds since the epoch. Default: the machine's clock. */
  readonly now?: () => number;
}

/** All operations reject with an `EnforcementError`, and then leave nothing under the output's name. */
export interface Enforcer {
  protect(options: ProtectOptions): Promise<Outcome>;
  /**
   * Protects many small objects, each as `protect` does, with its own decision, registration and event. Resolves with
   * one result for each, in order; a failed item does not affect the others.
   */
  protectMany(items: readonly ProtectOptions[]): Promise<readonly Settled[]>;
  /** The same for `open`. */
  openMany(items: readonly OpenOptions[]): Promise<readonly Settled[]>;
  /** As `protect`, as a stream that an uploader reads, at the reader's speed. */
  protectStream(options: Omit<ProtectOptions, "output" | "replace">): ProtectedStream;
  open(options: OpenOptions): Promise<Outcome>;
  /**
   * Writes `length` bytes of the plaintext from `offset`, or fewer at its end, and reads only the segments that have
   * them. Permission, keys and evidence are those of `open`.
   *
   * Proves that these bytes are at this position of data that was protected under the header's decision, labels and
   * resource; and, if the range ends behind the data, where the data ends. It proves nothing of other segments, and of
   * a TDF's container only where its parts are. A TDF's manifest is read whole, so its digest is proven. The digest of
   * an envelope is not: pass `resource`, so that an envelope of another one is refused.
   */
  openRange(options: RangeOptions): Promise<Outcome>;
  rewrap(options: RewrapOptions): Promise<Outcome>;
  /** Sends pending evidence. Rejects with `evidence_overdue` if some is due and cannot be sent. */
  flush(signal?: AbortSignal): Promise<{ readonly sent: number; readonly waiting: number }>;
}

export function createEnforcer(options: EnforcerOptions): Enforcer {
  const context = contextOf(options);
  const enclosed = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      await requireLogKeys(options.logKeys ?? []);
      return await work();
    } catch (cause) {
      throw enforcementError(cause);
    }
  };
  const protectIn = (within: Context) => (request: ProtectOptions) =>
    enclosed(() => {
      const resource = resourceOf(request.resource);
      return profileOf(request, protectors)(within, { ...described(request), resource });
    });
  const openIn = (within: Context) => (given: OpenOptions) =>
    enclosed(() => {
      const { signature, ...request } = described(given);
      if (signature !== undefined) return openSigned(within, { ...request, signature });
      return profileOf(request, openers)(within, request);
    });
  const shared = () => (options.bulk === undefined ? context : sharedContext(context, options.bulk));
  const protect = protectIn(context);
  return {
    protect,
    protectMany: (items) => settleAll(items, protectIn(shared())),
    openMany: (items) => settleAll(items, openIn(shared())),
    protectStream: (request) => protectStream(protect, request),
    open: openIn(context),
    openRange: (given) =>
      enclosed(() => {
        const request = described(given);
        requireRange(request);
        const open = profileOf(request, rangeOpeners);
        return withSource(request.input, (source) => open(context, request, source));
      }),
    rewrap: (request) => enclosed(() => profileOf(request, rewrappers)(context, described(request))),
    flush: (signal) => enclosed(() => context.spool.flush(signal)),
  };
}

/**
 * The description of the data in the contract's members. Throws `invalid` where one is of another type: items share
 * calls, and what cannot be encoded would fail the call of all of them.
 */
function described<
  Request extends RequestOptions & { readonly resource?: Resource; readonly artifactLocator?: string },
>(request: Request): Request {
  const { labels = [], resource, purpose, attributes, artifactLocator } = request;
  if (!Array.isArray(labels) || labels.some((label) => typeof label !== "string"))
    throw new EnforcementError("invalid", "labels are a list of texts");
  const isText = (value: unknown) => typeof value === "string";
  if (Array.isArray(attributes) || !Object.values(attributes ?? {}).every(isText))
    throw new EnforcementError("invalid", "attributes are texts by key");
  if (![purpose ?? "", artifactLocator ?? ""].every(isText))
    throw new EnforcementError("invalid", "purpose and locator are texts");
  return { ...request, ...(resource !== undefined && { resource: resourceOf(resource) }) };
}

const protectors = { envelope: protectAsEnvelope, detached_signature: signData, tdf: protectAsTdf };
const rewrappers = { envelope: rewrapEnvelope, detached_signature: signAnew, tdf: rewrapTdf };
const openers = {
  envelope: openEnvelope,
  detached_signature: async (): Promise<Outcome> => {
    throw new EnforcementError("invalid", "signed data is opened with its signature");
  },
  tdf: openTdf,
};

const rangeOpeners = {
  envelope: openEnvelopeRange,
  detached_signature: openers.detached_signature,
  tdf: openTdfRange,
};

function requireRange({ offset, length }: Pick<RangeOptions, "offset" | "length">): void {
  if (![offset, length, offset + length].every((value) => Number.isSafeInteger(value) && value >= 0))
    throw new EnforcementError("invalid", "offset and length are whole numbers of bytes");
}

/** Throws if the profile is not supported; callers in JavaScript may pass any. */
function profileOf<Work>(
  { profile = "envelope" }: { readonly profile?: LocalProfile },
  works: Readonly<Record<LocalProfile, Work>>,
): Work {
  if (!localProfiles.includes(profile))
    throw new EnforcementError("invalid", `there is no profile ${profile} here: ${localProfiles.join(", ")}`);
  return works[profile];
}

/** A deployment's support changes only with its configuration. */
const deploymentKeptMs = 300_000;

function contextOf(options: EnforcerOptions): Context & { readonly spool: EvidenceSpool } {
  const { workload, keys, evidenceToleranceMs, logKeys, now = Date.now } = options;
  if (new Set(keys.map(({ reference }) => reference)).size < keys.length)
    throw new EnforcementError("invalid", "two keys have the same reference");
  for (const { reference } of keys) requireReference(reference);
  if (options.bulk !== undefined && logKeys === undefined)
    throw new EnforcementError("invalid", "bulk calls need log keys");
  const platform = "discovery" in options.client ? platformOf(options.client) : options.client;
  const directory = resolve(options.spoolDirectory);
  // An answer whose receipt does not match the request is not valid.
  const checkReceipt = async (exchange: Exchange, sinceMs: number, signal: AbortSignal | undefined) => {
    if (logKeys === undefined) return;
    try {
      const { caller = (await deployment(signal)).caller } = options;
      await requireReceipt(exchange, { logKeys, caller, sinceMs, nowMs: now() });
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new EnforcementError("unavailable", `the answer's receipt is not one of the trusted log: ${why}`, {
        cause,
      });
    }
  };
  const keptDeployment = kept(() => platform.deployment(), deploymentKeptMs);
  const deployment = (signal?: AbortSignal) => unlessAborted(keptDeployment(), signal);
  return {
    platform,
    workload,
    keys,
    attributeNamespace: options.attributeNamespace,
    evidenceToleranceMs,
    directory: join(directory, "passing"),
    now,
    spool: new EvidenceSpool({
      ...{ directory, platform, now },
      // An event of another process is as old as it says.
      checkReceipt: (event, answer, signal) =>
        checkReceipt({ route: "evidence", asked: event, answer }, Date.parse(event.occurred_at), signal),
    }),
    understanding: {
      obligations: new Map(Object.entries(options.obligations ?? {})),
      handlingModes: options.handlingModes ?? ["local_embedded_enforcement"],
      libraries: ["sdk_embedded_library"],
    },
    deployment,
    checkReceipt,
  };
}
