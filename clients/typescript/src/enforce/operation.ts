/** Common steps of protect, open and rewrap, before and after the cryptography. */
import { callProblem, EnforcementError, enforcementError } from "./errors.ts";
import type { KeyProvider } from "./keys.ts";
import {
  evidenceTolerance,
  meetObligations,
  type ObligationHandler,
  requirePermission,
  type Understanding,
} from "./permission.ts";
import type {
  Accepted,
  Artifact,
  Decision,
  Deployment,
  Description,
  EvidenceEvent,
  KeyOperation,
  Operation,
  Platform,
  Profile,
  Registration,
  Resource,
  Workload,
} from "./platform.ts";
import type { Exchange } from "./receipt-check.ts";
import type { SigningKey } from "./signing-keys.ts";
import type { EvidenceSpool, PendingEvidence } from "./spool.ts";
import type { TdfKey } from "./tdf-keys.ts";

/** Options of every operation. */
export interface RequestOptions {
  readonly purpose?: string;
  readonly labels?: readonly string[];
  readonly attributes?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Called after each piece with the number of processed bytes, and the total if it is known. */
  readonly onProgress?: (doneBytes: number, totalBytes: number | undefined) => void;
}

export interface Context {
  readonly platform: Platform;
  readonly workload: Workload;
  readonly keys: readonly (KeyProvider | SigningKey | TdfKey)[];
  readonly attributeNamespace: string | undefined;
  readonly spool: Pick<EvidenceSpool, "begin" | "flush">;
  readonly understanding: Understanding;
  /** Folder for temporary data. */
  readonly directory: string;
  readonly evidenceToleranceMs: number | undefined;
  readonly deployment: (signal?: AbortSignal) => Promise<Deployment>;
  /**
   * Rejects if the receipt is not from the trusted log, or not of this exchange.
   *
   * @param sinceMs when it began, in milliseconds since the Unix epoch
   */
  readonly checkReceipt: (exchange: Exchange, sinceMs: number, signal: AbortSignal | undefined) => Promise<void>;
  readonly now: () => number;
}

/** An operation that may be carried out. */
export interface Permitted {
  readonly plan: Decision;
  readonly keys: readonly Decision[];
  readonly toleranceMs: number;
}

/** What requests name of a key. */
export interface UsedKey {
  readonly reference: string;
  readonly transport: KeyProvider["transport"];
  /** Of a TDF key. */
  readonly url?: string | undefined;
  readonly kid?: string | undefined;
}

export function usesOf(operation: KeyOperation, keys: readonly UsedKey[]): Asked["keys"] {
  return keys.map(({ reference, transport, url, kid }) => ({ operation, reference, transport, url, kid }));
}

export interface Asked {
  readonly operation: Operation;
  readonly profile: Profile;
  readonly resource: Resource;
  readonly labels: readonly string[];
  /** Keys to use, and for what. */
  readonly keys: readonly (UsedKey & { readonly operation: KeyOperation })[];
  readonly about: {
    readonly artifact_digest?: string;
    readonly artifact_cid?: string;
    readonly content_digest?: string;
    readonly content_size_bytes?: number;
  };
}

/** The description of this work in requests and events. */
export function describe(
  { workload }: Context,
  { purpose, attributes = {} }: RequestOptions,
  { resource, labels }: Pick<Asked, "resource" | "labels">,
): Description {
  return { workload, resource, ...(purpose !== undefined && { purpose }), labels, attributes };
}

/**
 * Sends pending evidence, checks what the deployment supports, requests the plan and the use of keys, and meets their
 * obligations. Rejects unless everything permits the work; a refusal is itself recorded as evidence.
 */
export async function requestPermission(context: Context, options: RequestOptions, asked: Asked): Promise<Permitted> {
  const { platform, understanding, spool } = context;
  const { signal } = options;
  await spool.flush(signal);
  await requireDeployment(context, asked, signal);
  const { content_size_bytes, ...about } = asked.about;
  const question = {
    ...describe(context, options, asked),
    ...about,
    understood_obligations: [...understanding.obligations.keys(), "evidence-within"],
  };
  const decisions: Decision[] = [];
  const decide = async (
    ask: () => Promise<Decision>,
    exchangeOf: (answer: Decision) => Exchange,
    transports: readonly string[],
    keys: Asked["keys"],
  ) => {
    const sinceMs = context.now();
    const decision = await answered(ask());
    decisions.push(decision);
    await context.checkReceipt(exchangeOf(decision), sinceMs, signal);
    const wrapping = keys.filter(({ operation }) => operation === "wrap");
    requirePermission(decision, { profile: asked.profile, transports, wrapping }, understanding);
    return decision;
  };
  try {
    const transports = ["local_provided", ...asked.keys.map(({ transport }) => transport)];
    const planned = {
      ...question,
      operation: asked.operation,
      preferred_artifact_profile: asked.profile,
      ...(content_size_bytes !== undefined && { content_size_bytes }),
    };
    const plan = await decide(
      () => platform.planProtection(planned, signal),
      (answer) => ({ route: "protection-plan", asked: planned, answer }),
      transports,
      asked.keys,
    );
    const keys: Decision[] = [];
    for (const key of asked.keys) {
      const { operation, reference, transport } = key;
      const access = { ...question, operation, artifact_profile: asked.profile, key_reference: reference };
      const decision = await decide(
        () => platform.planKeyAccess(access, signal),
        (answer) => ({ route: "key-access-plan", asked: access, answer }),
        [transport],
        [key],
      );
      keys.push(decision);
    }
    const toleranceMs = evidenceTolerance(decisions, context.evidenceToleranceMs);
    await meetObligations(decisions, understanding);
    return { plan, keys, toleranceMs };
  } catch (error) {
    if (error instanceof EnforcementError && error.failure === "not_permitted")
      await recordRefusal(context, options, asked, decisions.at(-1), error);
    throw error;
  }
}

async function requireDeployment(
  context: Context,
  { operation, profile }: Asked,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { plaintextToPlatform, operations, profiles, missingScopes } = await answered(context.deployment(signal));
  const refuse = (why: string): never => {
    throw new EnforcementError("not_permitted", why);
  };
  if (plaintextToPlatform !== false) refuse("the deployment would take plaintext");
  if (!operations.includes(operation)) refuse(`the deployment does not support ${operation}`);
  if (!profiles.includes(profile)) refuse(`the deployment does not support profile ${profile}`);
  if (missingScopes.length > 0) refuse(`the credentials lack scopes: ${missingScopes.join(", ")}`);
}

/** A failed call is no valid answer, and without one there is no permission. */
export async function answered<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    if (cause instanceof EnforcementError) throw cause;
    throw new EnforcementError("unavailable", callProblem(cause), { cause });
  }
}

async function recordRefusal(
  context: Context,
  options: RequestOptions,
  asked: Asked,
  decision: Decision | undefined,
  error: EnforcementError,
): Promise<void> {
  const { content_digest, content_size_bytes, ...about } = asked.about;
  const event = { ...describe(context, options, asked), ...about, artifact_profile: asked.profile };
  // Nothing was released, so this event may wait until the next operation.
  const evidence = await context.spool.begin(
    { ...event, event_type: "deny", ...(decision?.decisionId && { decision_id: decision.decisionId }) },
    context.evidenceToleranceMs ?? 0,
  );
  await conclude(evidence, failureOf("refused", error, options), options.signal);
}

/** Sends the result of failed work; or, if it cannot be stored, the event from its beginning. */
async function conclude(
  evidence: PendingEvidence,
  ending: Partial<EvidenceEvent>,
  signal: AbortSignal | undefined,
): Promise<void> {
  await evidence.settle(ending).catch(() => {});
  await evidence.send(signal);
}

/** Registers the artifact. Rejects if the registration is not accepted. */
export async function register(
  context: Context,
  registration: Registration,
  idempotencyKey: string,
  signal: AbortSignal | undefined,
): Promise<Accepted> {
  const sinceMs = context.now();
  const answer = await answered(context.platform.registerArtifact(registration, idempotencyKey, signal));
  await context.checkReceipt({ route: "artifact-register", asked: registration, answer }, sinceMs, signal);
  if (answer.accepted !== true)
    throw new EnforcementError("not_permitted", `the registration does not stand: ${answer.warnings.join("; ")}`, {
      decisionId: registration.decision_id,
    });
  return answer;
}

/** Runs the work with its event on disk throughout: begun before the work, with the reason if it fails. */
export async function withEvidence<T>(
  context: Context,
  event: Omit<EvidenceEvent, "outcome" | "occurred_at">,
  toleranceMs: number,
  signal: AbortSignal | undefined,
  work: (evidence: PendingEvidence) => Promise<T>,
): Promise<T> {
  const evidence = await context.spool.begin(event, toleranceMs);
  try {
    return await work(evidence);
  } catch (error) {
    await conclude(evidence, failureOf("failed", error, event), signal);
    throw error;
  }
}

/**
 * Records the event of finished work, or leaves it pending if that is tolerated. Resolves before anything is released;
 * rejects if it must not be.
 */
export async function recordCompletion(
  context: Context,
  evidence: PendingEvidence,
  { artifact, receiptsFile, toleranceMs }: CompletedWork,
  signal: AbortSignal | undefined,
): Promise<{ readonly isPending: boolean; readonly receipt?: Accepted["receipt"] }> {
  const occurred_at = new Date(context.now()).toISOString();
  await evidence.settle({ ...artifact, outcome: "completed", occurred_at }, receiptsFile);
  const sent = await evidence.send(signal);
  if ("problem" in sent) {
    if (toleranceMs > 0) return { isPending: true };
    throw evidenceNotRecorded(sent.problem);
  }
  return { isPending: false, receipt: sent.receipt };
}

export function evidenceNotRecorded(cause: unknown): EnforcementError {
  const what = "the evidence could not be recorded, and policy tolerates no delay";
  return new EnforcementError("unavailable", `${what}: ${callProblem(cause)}`, { cause });
}

export interface CompletedWork {
  readonly artifact: Artifact;
  /** The event's receipt is added to it later; absent if it is not kept. */
  readonly receiptsFile?: string;
  readonly toleranceMs: number;
}

/** Finds the wrapping key that a header or a caller names. */
export function wrappingKeyOf({ keys }: Context, reference: string | undefined): KeyProvider {
  return keyOf(
    keys.filter((key) => "wrap" in key),
    reference,
  );
}

/** The same for signing keys. */
export function signingKeyOf({ keys }: Context, reference: string | undefined): SigningKey {
  return keyOf(
    keys.filter((key) => "verify" in key),
    reference,
  );
}

/** The key of this reference, or the first one. Throws `invalid` if there is none. */
export function keyOf<Key extends { readonly reference: string }>(
  keys: readonly Key[],
  reference: string | undefined,
): Key {
  const found = reference === undefined ? keys[0] : keys.find((key) => key.reference === reference);
  if (found === undefined)
    throw new EnforcementError(
      "invalid",
      `no key${reference === undefined ? "" : ` ${reference}`} was given for this profile`,
    );
  return found;
}

/** The ledger's outcome for failed work; the failure becomes an attribute if there is room. */
function failureOf(
  outcome: "failed" | "refused",
  error: unknown,
  { attributes = {} }: Pick<RequestOptions, "attributes">,
): Pick<EvidenceEvent, "outcome"> & Partial<EvidenceEvent> {
  const { failure } = enforcementError(error);
  return Object.keys(attributes).length < maxAttributes
    ? { outcome, attributes: { ...attributes, enforcement_failure: failure } }
    : { outcome };
}

const maxAttributes = 64;

export type { ObligationHandler };
