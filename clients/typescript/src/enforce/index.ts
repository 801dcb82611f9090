/**
 * Local enforcement: files and streams of any size are protected, opened and rewrapped in this process, for decisions of
 * the platform, which sees metadata only. docs/enforcement.md has the format and the order of things.
 */
import { join, resolve } from "node:path";
import type { PlatformClient } from "./client.ts";
import { platformOf } from "./client-platform.ts";
import { EnforcementError, enforcementError } from "./errors.ts";
import { resourceOf } from "./header.ts";
import { type KeyProvider, requireReference } from "./keys.ts";
import { type OpenOptions, openEnvelope } from "./open.ts";
import type { Context, RequestOptions } from "./operation.ts";
import type { ObligationHandler } from "./permission.ts";
import type { Deployment, Platform, Resource, Workload } from "./platform.ts";
import { type LocalProfile, localProfiles, type Outcome, type ProtectOptions, protectAsEnvelope } from "./protect.ts";
import { type Exchange, type ExpectedCaller, requireReceipt } from "./receipt-check.ts";
import { requireLogKeys } from "./receipts.ts";
import { type RewrapOptions, rewrapEnvelope } from "./rewrap.ts";
import { openSigned, signAnew, signData } from "./sign.ts";
import type { SigningKey } from "./signing-keys.ts";
import { EvidenceSpool } from "./spool.ts";

export { EnforcementError, type EnforcementFailure } from "./errors.ts";
export { createKeyFile, createPublicKeyFile, createSigningKeyFile, keyFile } from "./key-files.ts";
export { type KeyProvider, localKey } from "./keys.ts";
export type { ObligationHandler } from "./permission.ts";
export type { Platform, Resource, Workload } from "./platform.ts";
export type { LocalProfile, Outcome } from "./protect.ts";
export type { ExpectedCaller } from "./receipt-check.ts";
export { type ReceiptsFile, receiptsPathOf } from "./receipts.ts";
export { localSigningKey, type SigningKey } from "./signing-keys.ts";
export type { StreamingAead } from "./streaming-aead.ts";
export { type TransitOptions, transitKey } from "./transit.ts";
export { type VerifiedArtifact, type VerifyOptions, verifyArtifact } from "./verify.ts";

export interface EnforcerOptions {
  /** A client with token, certificate and retries; or the seam itself. Answers must carry whole receipts. */
  readonly client: PlatformClient | Platform;
  readonly workload: Workload;
  /** Keys by reference; the first that fits is what protects unless told otherwise. To flush none is needed. */
  readonly keys: readonly (KeyProvider | SigningKey)[];
  /** Folder on a local disk where evidence waits. Of one machine, and of workloads with the same credentials. */
  readonly spoolDirectory: string;
  /** C2SP verifier keys of the tenant's log: with them, an answer whose receipt does not verify is none. */
  readonly logKeys?: readonly string[];
  /**
   * Who this workload is: with log keys, an answer whose receipt is of another caller is none. Default: whom `whoami`
   * names, which is the word of whatever answers at the platform's address.
   */
  readonly caller?: ExpectedCaller;
  /** What this workload does where a decision demands it. Everything else that is demanded is a refusal. */
  readonly obligations?: Readonly<Record<string, ObligationHandler>>;
  /** Ways of handling offered here. Default `local_embedded_enforcement` alone. */
  readonly handlingModes?: readonly string[];
  /**
   * How long evidence may be on its way where no decision says it (obligation `evidence-within`), in milliseconds; where
   * one does, the shorter holds. Default: nothing is released before its event is on the ledger.
   */
  readonly evidenceToleranceMs?: number;
  /** Milliseconds since the epoch. Default: the machine's clock. */
  readonly now?: () => number;
}

/** All operations reject with an `EnforcementError`, and then leave nothing under the output's name. */
export interface Enforcer {
  protect(options: ProtectOptions): Promise<Outcome>;
  open(options: OpenOptions): Promise<Outcome>;
  rewrap(options: RewrapOptions): Promise<Outcome>;
  /** Sends the evidence that waits. Rejects with `evidence_overdue` where some is due and cannot be sent. */
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
  return {
    protect: (request) =>
      enclosed(() => {
        const resource = resourceOf(request.resource);
        return (isSignature(request) ? signData : protectAsEnvelope)(context, { ...described(request), resource });
      }),
    open: (given) =>
      enclosed(() => {
        const { signature, ...request } = described(given);
        return signature === undefined
          ? openEnvelope(context, request)
          : openSigned(context, { ...request, signature });
      }),
    rewrap: (request) =>
      enclosed(() => (isSignature(request) ? signAnew : rewrapEnvelope)(context, described(request))),
    flush: (signal) => enclosed(() => context.spool.flush(signal)),
  };
}

/** What the request says of the data, in the contract's members. Throws `invalid`: a text is no list of labels. */
function described<Request extends RequestOptions & { readonly resource?: Resource }>(request: Request): Request {
  const { labels = [], resource } = request;
  if (!Array.isArray(labels) || labels.some((label) => typeof label !== "string"))
    throw new EnforcementError("invalid", "labels are a list of texts");
  return { ...request, ...(resource !== undefined && { resource: resourceOf(resource) }) };
}

/** Throws where no such profile is made here; a caller in JavaScript may ask for any. */
function isSignature({ profile = "envelope" }: { readonly profile?: LocalProfile }): boolean {
  if (!localProfiles.includes(profile))
    throw new EnforcementError("invalid", `there is no profile ${profile} here: ${localProfiles.join(", ")}`);
  return profile === "detached_signature";
}

/** What a deployment supports changes with its configuration only. */
const deploymentKeptMs = 300_000;

function contextOf(options: EnforcerOptions): Context {
  const { workload, keys, evidenceToleranceMs, logKeys, now = Date.now } = options;
  if (new Set(keys.map(({ reference }) => reference)).size < keys.length)
    throw new EnforcementError("invalid", "two keys have the same reference");
  for (const { reference } of keys) requireReference(reference);
  const platform = "discovery" in options.client ? platformOf(options.client) : options.client;
  const directory = resolve(options.spoolDirectory);
  // An answer whose receipt is not of what was asked is none.
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
  let kept: { readonly deployment: Deployment; readonly untilMs: number } | undefined;
  const deployment = async (signal?: AbortSignal) => {
    if (kept === undefined || now() >= kept.untilMs)
      kept = { deployment: await platform.deployment(signal), untilMs: now() + deploymentKeptMs };
    return kept.deployment;
  };
  return {
    platform,
    workload,
    keys,
    evidenceToleranceMs,
    directory: join(directory, "passing"),
    now,
    spool: new EvidenceSpool({
      ...{ directory, platform, now },
      // What was begun by another process is as old as it says.
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
