/** How possession of a token's key is proved: one entry for each method, resolved once for a deployment. */
import type { Clock } from "../../base/clock.ts";
import type { ProofOfPossession } from "../../base/vocabulary.ts";
import { type TokenScheme, underDpop } from "../challenge.ts";
import type { InboundRequest } from "../inbound-request.ts";
import type { VerifiedToken } from "../tokens/token-cache.ts";
import {
  confirmCertificate,
  type MutualTlsRule,
  type NoPossessionRule,
  type OnCertificateIgnored,
  requireCertificate,
} from "./confirmation.ts";
import { boundThumbprint, requireUnbound, type TokenBinding } from "./confirmation-method.ts";
import { confirmDpopPossession, type DpopRule, readProof } from "./dpop.ts";

/** What a deployment decides about possession. */
export type ProofOfPossessionRule = NoPossessionRule | MutualTlsRule | DpopRule;

/** A method, ready for the calls of one deployment. */
export interface PossessionMethod {
  /** Under which callers present their tokens. */
  readonly scheme: TokenScheme;
  /**
   * What can be said before a token is verified: nothing is fetched for a caller who does not hold what its token says
   * that it is bound to, or, where a token says nothing to us, holds nothing that it could be bound to.
   * @throws ServiceError `proof_of_possession_failed`
   */
  beforeFetch(claimed: TokenBinding | "unknown", inbound: InboundRequest): void;
  /**
   * Checks that the call shows the key that its token is bound to. To be called on every call, however the token was
   * verified, last of all that looks at it.
   * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`
   */
  confirm(token: string, verified: VerifiedToken, inbound: InboundRequest): void | Promise<void>;
  /**
   * The same for a call that goes on, as far as it can be shown again: a proof counts once (RFC 9449 §11.1), and was shown
   * when the call began.
   * @throws ServiceError `proof_of_possession_failed`
   */
  confirmStill(verified: VerifiedToken, inbound: InboundRequest): void;
  /** What was thrown for a call, with the challenge of the scheme. */
  asThrown(thrown: unknown): unknown;
}

export interface PossessionContext {
  readonly clock: Clock;
  readonly clockToleranceSeconds: number;
  readonly onCertificateIgnored: OnCertificateIgnored;
}

type RuleOf<Mode extends ProofOfPossession> = Extract<ProofOfPossessionRule, { readonly mode: Mode }>;

const methods: {
  readonly [Mode in ProofOfPossession]: (rule: RuleOf<Mode>, context: PossessionContext) => PossessionMethod;
} = {
  none: () => ({
    scheme: "Bearer",
    beforeFetch: (claimed) => claimed === "unknown" || requireUnbound(claimed),
    confirm: (_token, { binding }) => requireUnbound(binding),
    confirmStill: ({ binding }) => requireUnbound(binding),
    asThrown: (thrown) => thrown,
  }),
  mtls: (rule, { onCertificateIgnored }) => ({
    scheme: "Bearer",
    beforeFetch: (claimed, inbound) =>
      claimed === "unknown" ? requireCertificate(inbound, rule) : confirmCertificate(claimed, inbound, rule, () => {}),
    confirm: (_token, { binding }, inbound) => confirmCertificate(binding, inbound, rule, onCertificateIgnored),
    confirmStill: ({ binding }, inbound) => confirmCertificate(binding, inbound, rule, () => {}),
    asThrown: (thrown) => thrown,
  }),
  dpop: (rule, context) => ({
    scheme: "DPoP",
    beforeFetch: (claimed, inbound) =>
      void (claimed === "unknown" ? readProof(inbound) : boundThumbprint(claimed, "jkt")),
    confirm: (token, verified, inbound) => confirmDpopPossession(token, verified, inbound, rule, context),
    confirmStill: ({ binding }) => void boundThumbprint(binding, "jkt"),
    asThrown: underDpop,
  }),
};

/** The method that the rule names. */
export function possessionMethod<Mode extends ProofOfPossession>(
  rule: RuleOf<Mode> & { readonly mode: Mode },
  context: PossessionContext,
): PossessionMethod {
  return methods[rule.mode](rule, context);
}
