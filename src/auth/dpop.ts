/** Proof of possession by DPoP (RFC 9449): every call is signed with the key that its token is bound to. */
import { hash } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import type { FairSemaphore } from "../base/semaphore.ts";
import { missingNonce, refusedProof } from "./challenge.ts";
import { boundThumbprint } from "./confirmation.ts";
import {
  type DpopNonces,
  type DpopProof,
  proofLifetimeSeconds,
  readDpopProof,
  targetOf,
  verifyProof,
} from "./dpop-proof.ts";
import type { ReplayStore } from "./replay-store.ts";
import type { VerifiedToken } from "./token-cache.ts";

export interface DpopRule {
  /** Tokens must be bound to a key of the caller, and every call carries a proof by it. */
  readonly mode: "dpop";
  /** Base URL of the service for callers, without a trailing slash. Undefined: loopback callers only. */
  readonly publicUrl: string | undefined;
  readonly replayStore: ReplayStore;
  /** Undefined: nonces are not required. */
  readonly nonces: DpopNonces | undefined;
}

export interface DpopContext {
  readonly clock: Clock;
  /** Seconds by which the clocks of callers and replicas may differ from ours. */
  readonly clockToleranceSeconds: number;
  /** See `VerifierRules`. */
  readonly signatures: FairSemaphore;
}

/**
 * Reads the call's proof and checks all but its signature, which is far more expensive.
 * @throws ServiceError `proof_of_possession_failed`
 */
export async function expectProof(
  accessToken: string,
  { binding }: VerifiedToken,
  inbound: InboundRequest,
  { publicUrl }: DpopRule,
  { clock, clockToleranceSeconds }: DpopContext,
): Promise<DpopProof> {
  return readDpopProof(readProof(inbound), {
    boundKey: boundThumbprint(binding, "jkt"),
    accessToken,
    method: inbound.method,
    target: targetOf(inbound, publicUrl),
    nowMs: clock.now(),
    clockToleranceSeconds,
  });
}

/**
 * Checks that the call carries a fresh proof by the key that the verified token is bound to, and records its use. Call
 * this for every call, as the last check of its token.
 * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`; the signal's reason once aborted
 */
export async function confirmDpopPossession(
  accessToken: string,
  verified: VerifiedToken,
  inbound: InboundRequest,
  rule: DpopRule,
  context: DpopContext,
  signal: AbortSignal,
): Promise<void> {
  const proof = await expectProof(accessToken, verified, inbound, rule, context);
  const { tenantId } = verified.caller;
  await context.signatures.run(`proofs of ${tenantId}`, () => verifyProof(proof), signal);
  const { nonces } = rule;
  if (nonces !== undefined && !nonces.accepts(proof.nonce ?? "")) throw missingNonce(nonces.current());
  const use = { tenantId, proof: hash("sha256", `${proof.expected.boundKey} ${proof.id}`, "base64url") };
  // A replica whose clock is behind accepts the proof for longer than this one.
  const expiresAtMs = (proof.issuedAtSeconds + proofLifetimeSeconds + context.clockToleranceSeconds) * 1000;
  if (!(await rule.replayStore.firstUse(use, expiresAtMs))) throw refusedProof("the DPoP proof was used before");
}

/** RFC 9449 §4.3 item 1: at most one. Two that a proxy joined are not a JWT. */
export function readProof(inbound: InboundRequest): string {
  const [proof, ...others] = inbound.headerValues("dpop");
  if (proof === undefined) throw refusedProof("a DPoP proof is required");
  if (others.length > 0) throw refusedProof("more than one DPoP header");
  return proof;
}
