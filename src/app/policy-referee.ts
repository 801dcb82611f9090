/** What becomes of it where Cedar would have decided something else than compiled policies did. */

import { securityFields } from "../base/security-events.ts";
import type { Timers } from "../base/timers.ts";
import type { Config } from "../config/settings.ts";
import type { PolicyHolder } from "../policy/engine/holder.ts";
import { PolicyReferee } from "../policy/tools/referee.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** Raised for the tenant of the decision. */
const alert = "cedar-disagrees";

/** What the machine provides, and who else is to ask Cedar alone under a revision. */
export interface RefereeMachine {
  readonly timers: Timers;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly onDisagreement?: (revision: string) => void;
}

/** The referee of what the holder decides; absent where Cedar alone evaluates. */
export function refereeOf(
  { policyEvaluator, policyRefereePercent }: Pick<Config, "policyEvaluator" | "policyRefereePercent">,
  { timers, logger, metrics, onDisagreement }: RefereeMachine,
  engine: PolicyHolder,
): PolicyReferee | undefined {
  if (policyEvaluator === "cedar") return undefined;
  return new PolicyReferee({
    share: policyRefereePercent / 100,
    random: Math.random,
    timers,
    onAgreement: () => metrics.refereed("agrees"),
    onDropped: () => metrics.refereed("dropped"),
    onFailure(err) {
      metrics.refereed("failed");
      logger.error({ err }, "Cedar cannot be asked again about decisions; it is tried again");
    },
    onDisagreement({ revision, tenantId, decisionId, decided, cedar }) {
      engine.useCedar(revision);
      onDisagreement?.(revision);
      metrics.refereed("differs");
      metrics.policyAlerted(tenantId, alert, decided.allow);
      const of = { tenant_id: tenantId, decision_id: decisionId, policy_revision: revision, alert };
      const said = { allow: decided.allow, reasons: decided.reasons };
      const cedarSaid = { cedar_allow: cedar.allow, cedar_reasons: cedar.reasons };
      logger.error(
        { ...securityFields("policy_disagreement"), ...of, ...said, ...cedarSaid },
        "a decision is not what Cedar decides; Cedar decides from now on",
      );
    },
  });
}
