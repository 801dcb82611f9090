/** Proof of possession by DPoP (RFC 9449): every call is signed with the key that its token is bound to. */
import { hash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { missingNonce, refusedProof } from "../challenge.ts";
import type { InboundRequest } from "../inbound-request.ts";
import type { VerifiedToken } from "../tokens/token-cache.ts";
import { boundThumbprint } from "./confirmation-method.ts";
import type { DpopNonces } from "./dpop-nonce.ts";
import { proofLifetimeSeconds, targetOf, verifyProof } from "./dpop-proof.ts";
import type { ReplayStore } from "./replay-store.ts";

export interface DpopRule {
  /** Tokens must be bound to a key of the caller, and every call carries a proof of it. */
  readonly mode: "dpop";
  /** Base URL by which callers reach the service, without a slash at its end. Undefined: loopback callers only. */
  readonly publicUrl: string | undefined;
  readonly replayStore: ReplayStore;
  /** Undefined: proofs need no nonce. */
  readonly nonces: DpopNonces | undefined;
}

export interface DpopContext {
  readonly clock: Clock;
  /** Seconds by which the clocks of callers and replicas may differ from ours. */
  readonly clockToleranceSeconds: number;
}

/**
 * Checks that the call carries a fresh proof by the key that the verified token is bound to, and notes its use. To be
 * called on every call, last of all that looks at its token.
 * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`
 */
export async function confirmDpopPossession(
  accessToken: string,
  { caller, binding }: VerifiedToken,
  inbound: InboundRequest,
  { publicUrl, replayStore, nonces }: DpopRule,
  { clock, clockToleranceSeconds }: DpopContext,
): Promise<void> {
  const boundKey = boundThumbprint(binding, "jkt");
  const proof = await verifyProof(readProof(inbound), {
    boundKey,
    accessToken,
    method: inbound.method,
    target: targetOf(inbound, publicUrl),
    nowMs: clock.now(),
    clockToleranceSeconds,
  });
  if (nonces !== undefined && !nonces.accepts(proof.nonce ?? "")) throw missingNonce(nonces.current());
  const use = { tenantId: caller.tenantId, proof: hash("sha256", `${boundKey} ${proof.id}`, "base64url") };
  // A replica whose clock is behind takes the proof for longer than this one.
  const expiresAtMs = (proof.issuedAtSeconds + proofLifetimeSeconds + clockToleranceSeconds) * 1000;
  if (!(await replayStore.firstUse(use, expiresAtMs))) throw refusedProof("the DPoP proof was used before");
}

/** RFC 9449 §4.3 item 1: not more than one. Two that a proxy joined are no JWT. */
export function readProof(inbound: InboundRequest): string {
  const [proof, ...others] = inbound.headerValues("dpop");
  if (proof === undefined) throw refusedProof("a DPoP proof is required");
  if (others.length > 0) throw refusedProof("more than one DPoP header");
  return proof;
}
