/** How possession of a token's key is proved: one entry for each method, resolved once for a deployment. */
import type { Clock } from "../../base/clock.ts";
import type { FairSemaphore } from "../../base/semaphore.ts";
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
import { boundThumbprint, requireUnbound } from "./confirmation-method.ts";
import { confirmDpopPossession, type DpopRule, expectProof, readProof } from "./dpop.ts";

/** What a deployment decides about possession. */
export type ProofOfPossessionRule = NoPossessionRule | MutualTlsRule | DpopRule;

/** A method, ready for the calls of one deployment. */
export interface PossessionMethod {
  /** Under which callers present their tokens. */
  readonly scheme: TokenScheme;
  /**
   * What a call must show before a signature is checked, or anything fetched: the certificate that its token names, or a
   * proof of the key that it names which is good but for its signature; if a token says nothing to us, anything that it
   * could be bound to.
   * @throws ServiceError `proof_of_possession_failed`
   */
  beforeSignature(token: string, claimed: VerifiedToken | "unknown", inbound: InboundRequest): void | Promise<void>;
  /**
   * Checks that the call shows the key that its token is bound to. To be called on every call, however the token was
   * verified, last of all that looks at it.
   * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`; the signal's reason once aborted
   */
  confirm(token: string, verified: VerifiedToken, inbound: InboundRequest, signal: AbortSignal): void | Promise<void>;
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
  /** As `VerifierRules` has it. */
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
      // A call that gets further is told of when it is confirmed.
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

/** The method that the rule names. */
export function possessionMethod<Mode extends ProofOfPossession>(
  rule: RuleOf<Mode> & { readonly mode: Mode },
  context: PossessionContext,
): PossessionMethod {
  return methods[rule.mode](rule, context);
}
