/** The policy of a running service, which watches its directory. */
import * as fileSystem from "node:fs/promises";
import type { Authenticator } from "../auth/authenticator.ts";
import { securityFields } from "../base/security-events.ts";
import type { Config, FixedLimits } from "../config/settings.ts";
import type { DomainStatus, LivePlatform } from "../domain/platform-domains.ts";
import type { ServiceLedger } from "../ledger/append/ledger.ts";
import { checkBundleInThread } from "../policy/check/check-thread.ts";
import { compileInTurns } from "../policy/engine/engine.ts";
import { PolicyInForce, type ReloadEvent } from "../policy/engine/policy-in-force.ts";
import { readPolicyDirectory } from "../policy/load/directory.ts";
import { describeProblem, type PolicyProblem, sortProblems } from "../policy/model/problem.ts";
import { authConfigurations } from "./callers.ts";
import { type FirstPolicy, type FirstPolicySettings, readFirstPolicy } from "./first-policy.ts";
import type { Machine } from "./followed-files.ts";
import type { ServeConfig } from "./gateway.ts";

type PolicySettings = FirstPolicySettings & Pick<Config, "policyEvaluator"> & Pick<FixedLimits, "policyPollMs">;

type PolicyMachine = Pick<Machine, "timers" | "logger" | "metrics">;

/**
 * Loads the directory. Rejects with all its problems.
 *
 * @param begun the reading of the directory, if it began while other code was loaded
 */
export async function openLivePolicy(
  settings: PolicySettings,
  machine: PolicyMachine,
  begun: Promise<FirstPolicy> = readFirstPolicy(settings),
): Promise<PolicyInForce> {
  const { timers, metrics } = machine;
  const { reading, checked } = await begun;
  const problems = sortProblems([...reading.problems, ...(checked?.problems ?? [])]);
  if (reading.bundle === undefined || checked === undefined || problems.length > 0) throw policyRefused(problems);
  const engine = { evaluator: settings.policyEvaluator };
  const first = await compileInTurns(reading.bundle, checked, engine);
  metrics.followed("policy");
  report({ type: "loaded", revision: first.revision, disagreements: checked.disagreements }, machine);
  return new PolicyInForce(first, {
    known: reading,
    read: () => readPolicyDirectory(settings.policyDir, fileSystem, settings),
    check: checkBundleInThread,
    pollMs: settings.policyPollMs,
    ...{ engine, timers },
    onEvent(event) {
      report(event, machine);
      if (event.type === "loaded") logInForce(event.revision, machine);
      metrics.reloaded("policy", event.type === "loaded" ? "taken" : event.type);
    },
  });
}

/** An error that lists all problems. */
function policyRefused(problems: readonly PolicyProblem[]): Error {
  return new Error(`SVC_POLICY_DIR: the policy set is refused\n${problems.map(describeProblem).join("\n")}`);
}

/** Logs a change. The first set is logged when the service listens: a start that fails has changed nothing. */
export function logInForce(revision: string, { logger }: Pick<PolicyMachine, "logger">): void {
  logger.info(
    { ...securityFields("policy_changed"), what: "policy", policy_revision: revision },
    "policy set in force",
  );
}

/** Most problems in one log line. */
const maxLoggedProblems = 20;

function report(event: ReloadEvent, { logger, metrics }: PolicyMachine): void {
  switch (event.type) {
    case "loaded":
      metrics.policyLoaded(event.revision);
      if (event.disagreements === undefined) break;
      metrics.policySetsDisagree(event.disagreements.size);
      for (const [set, disagreement] of event.disagreements) {
        logger.error(
          { ...securityFields("policy_disagreement"), set, disagreement },
          "Cedar alone evaluates a set whose compiled policies differ from it",
        );
      }
      break;
    case "refused": {
      metrics.policyRefused("refused");
      const problems = event.problems.slice(0, maxLoggedProblems).map(describeProblem);
      logger.error(
        { ...securityFields("policy_refused"), what: "policy", problem_count: event.problems.length, problems },
        "policy set refused",
      );
      break;
    }
    case "failed":
      metrics.policyRefused("failed");
      logger.error(
        { ...securityFields("policy_refused"), what: "policy", err: event.error },
        "the policy set could not be loaded; the gateway will retry",
      );
      break;
  }
}

// The platform's current status, as every answer shows it. Recomputed on change, not for each answer.

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
  policy: Pick<PolicyInForce, "revision" | "status">,
  ledger: Pick<ServiceLedger, "writable">,
): LivePlatform {
  let current: DomainStatus = { configured: true, reason: "" };
  return {
    authMode: config.authMode,
    authConfiguration: authConfigurations(config, authenticator),
    policy() {
      const { newest } = policy.status;
      const more = newest === "in_force" ? "" : `; a newer policy set ${newerSet[newest]}`;
      const reason = `Policy revision ${policy.revision} is in force${more}.`;
      if (current.reason !== reason) current = { configured: true, reason };
      return current;
    },
    ledger: () => (ledger.writable ? writable : notWritable),
    managedKeyPatterns: config.keyReferences.length,
  };
}
