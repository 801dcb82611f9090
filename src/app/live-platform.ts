/** The platform's current status, as every answer shows it. Recomputed on change, not for each answer. */
import type { Authenticator } from "../auth/authenticator.ts";
import type { DomainStatus, LivePlatform } from "../domain/platform-domains.ts";
import type { ServiceLedger } from "../ledger/append/ledger.ts";
import type { ServeConfig } from "./gateway.ts";
import { authConfigurations } from "./issuers.ts";
import type { LivePolicy } from "./live-policy.ts";

/** Completes "the revision in force; a newer policy set …" if the newest set is not the one in force. */
export const newerSet = { refused: "was refused", failed: "could not be loaded yet" } as const;

const writable: DomainStatus = {
  configured: true,
  reason: "Records are written to the evidence ledger before they are answered.",
};
const notWritable: DomainStatus = { configured: false, reason: "The record store cannot be written now." };

export function livePlatform(
  config: ServeConfig,
  authenticator: Pick<Authenticator, "issuerOf" | "status">,
  policy: LivePolicy,
  ledger: Pick<ServiceLedger, "writable">,
): LivePlatform {
  let newest: PolicyFacts | undefined;
  return {
    authMode: config.authMode,
    authConfiguration: authConfigurations(config, authenticator),
    policy() {
      newest = policyFacts(policy, newest);
      return newest.status;
    },
    ledger: () => (ledger.writable ? writable : notWritable),
    managedKeyPatterns: config.keyReferences.length,
  };
}

interface PolicyFacts {
  readonly revision: string;
  readonly newest: ReturnType<LivePolicy["status"]>["newest"];
  readonly status: DomainStatus;
}

/** Returns `known` if it is still true. */
function policyFacts({ engine, status }: LivePolicy, known: PolicyFacts | undefined): PolicyFacts {
  const { revision } = engine;
  const { newest } = status();
  if (known?.revision === revision && known.newest === newest) return known;
  const more = newest === "in_force" ? "" : `; a newer policy set ${newerSet[newest]}`;
  const reason = `Policy revision ${revision} is in force${more}.`;
  return { revision, newest, status: { configured: true, reason } };
}
