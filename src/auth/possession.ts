/** Methods to prove possession of a token's key, one per deployment. */
import type { Clock } from "../base/clock.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import type { FairSemaphore } from "../base/semaphore.ts";
import type { ProofOfPossession } from "../base/vocabulary.ts";
import { type TokenScheme, underDpop } from "./challenge.ts";
import {
  boundThumbprint,
  confirmCertificate,
  type MutualTlsRule,
  type NoPossessionRule,
  type OnCertificateIgnored,
  requireCertificate,
  requireUnbound,
} from "./confirmation.ts";
import { confirmDpopPossession, type DpopRule, expectProof, readProof } from "./dpop.ts";
import type { VerifiedToken } from "./token-cache.ts";

export type ProofOfPossessionRule = NoPossessionRule | MutualTlsRule | DpopRule;

export interface PossessionMethod {
  readonly scheme: TokenScheme;
  /**
   * Checks what a call must show before a signature is checked or anything is fetched: the certificate that its token
   * names, or a proof by the token's key that is good but for its signature. For an opaque token, any certificate or
   * proof.
   * @throws ServiceError `proof_of_possession_failed`
   */
  beforeSignature(token: string, claimed: VerifiedToken | "unknown", inbound: InboundRequest): void | Promise<void>;
  /**
   * Checks that the call proves possession of the key that its token is bound to. Call this for every call, however the
   * token was verified, as the last check of its token.
   * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`; the signal's reason once aborted
   */
  confirm(token: string, verified: VerifiedToken, inbound: InboundRequest, signal: AbortSignal): void | Promise<void>;
  /**
   * Checks an open stream again as far as possible: a proof counts once (RFC 9449 §11.1), and was checked when the
   * stream began.
   * @throws ServiceError `proof_of_possession_failed`
   */
  confirmStill(verified: VerifiedToken, inbound: InboundRequest): void;
  /** Returns the thrown value, with the challenge of the scheme if it is a refusal. */
  asThrown(thrown: unknown): unknown;
}

export interface PossessionContext {
  readonly clock: Clock;
  readonly clockToleranceSeconds: number;
  readonly onCertificateIgnored: OnCertificateIgnored;
  /** See `VerifierRules`. */
  readonly signatures: FairSemaphore;
}

type RuleOf<Mode extends ProofOfPossession> = Extract<ProofOfPossessionRule, { readonly mode: Mode }>;

const methods: {
  readonly [Mode in ProofOfPossession]: (rule: RuleOf<Mode>, context: PossessionContext) => PossessionMethod;
} = {
  none: () => ({
    scheme: "Bearer",
    beforeSignature: (_token, claimed) => void (claimed === "unknown" || requireUnbound(claimed.binding)),
    confirm: (_token, { binding }) => requireUnbound(binding),
    confirmStill: ({ binding }) => requireUnbound(binding),
    asThrown: (thrown) => thrown,
  }),
  mtls: (rule, { onCertificateIgnored }) => ({
    scheme: "Bearer",
    beforeSignature: (_token, claimed, inbound) => {
      // A call that gets further is reported when it is confirmed.
      const ignored: string[] = [];
      try {
        if (claimed === "unknown") requireCertificate(inbound, rule);
        else confirmCertificate(claimed.binding, inbound, rule, (address) => ignored.push(address));
      } catch (refusal) {
        for (const address of ignored) onCertificateIgnored(address);
        throw refusal;
      }
    },
    confirm: (_token, { binding }, inbound) => confirmCertificate(binding, inbound, rule, onCertificateIgnored),
    confirmStill: ({ binding }, inbound) => confirmCertificate(binding, inbound, rule, () => {}),
    asThrown: (thrown) => thrown,
  }),
  dpop: (rule, context) => ({
    scheme: "DPoP",
    beforeSignature: async (token, claimed, inbound) => {
      if (claimed === "unknown") readProof(inbound);
      else await expectProof(token, claimed, inbound, rule, context);
    },
    confirm: (token, verified, inbound, signal) =>
      confirmDpopPossession(token, verified, inbound, rule, context, signal),
    confirmStill: ({ binding }) => void boundThumbprint(binding, "jkt"),
    asThrown: underDpop,
  }),
};

export function possessionMethod<Mode extends ProofOfPossession>(
  rule: RuleOf<Mode> & { readonly mode: Mode },
  context: PossessionContext,
): PossessionMethod {
  return methods[rule.mode](rule, context);
}
