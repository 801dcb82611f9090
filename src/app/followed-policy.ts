/** The policy of a thread that has its sets from another one, which follows the directories. */
import type { CompiledEngine } from "../policy/engine/bundle-engine.ts";
import { compileInTurns } from "../policy/engine/engine.ts";
import { PolicyHolder } from "../policy/engine/holder.ts";
import type { PolicyStatus } from "../policy/load/reloader.ts";
import type { PolicyRole } from "../telemetry/policy-metrics.ts";
import {
  type DecidingPolicy,
  type GoodPolicy,
  type LivePolicyMachine,
  type PolicySettings,
  policyRefused,
  shadowOf,
} from "./live-policy.ts";
import { type RefereeMachine, refereeOf } from "./policy-referee.ts";

export interface FollowedPolicy extends DecidingPolicy {
  /** Compiles a set, for the role that it is to have. Rejects where that is not possible. */
  prepare(role: PolicyRole, policy: GoodPolicy): Promise<void>;
  /** Puts in force what was prepared last for the role. */
  install(role: PolicyRole): void;
  /** Another thread has seen compiled policies of the revision disagree with Cedar: Cedar alone decides under it. */
  useCedar(revision: string): void;
  changed(status: PolicyStatus): void;
}

/** What a thread begins with. */
export interface FirstPolicy {
  readonly active: GoodPolicy;
  readonly shadow?: GoodPolicy | undefined;
  readonly status: PolicyStatus;
  /** Revisions under which Cedar alone decides, besides those whose sets were found to differ before. */
  readonly cedarAlone: readonly string[];
}

/** Decides by the sets that another thread has found good. */
export async function followPolicy(
  settings: PolicySettings,
  machine: LivePolicyMachine & Pick<RefereeMachine, "onDisagreement">,
  first: FirstPolicy,
): Promise<FollowedPolicy> {
  const compiled = (policy: GoodPolicy) => compiledBy(settings, policy);
  const active = await compiled(first.active);
  const engine = new PolicyHolder(active);
  const cedarAlone = new Set(first.cedarAlone);
  const useCedar = (revision: string) => {
    cedarAlone.add(revision);
    engine.useCedar(revision);
  };
  for (const revision of cedarAlone) useCedar(revision);
  const referee = refereeOf(settings, machine, engine);
  referee?.follow(active);
  const shadow = shadowOf(settings, machine);
  if (first.shadow !== undefined) shadow?.replace(await compiled(first.shadow));
  const prepared = new Map<PolicyRole, CompiledEngine>();
  let status = first.status;
  return {
    engine,
    observe(query, decision, decisionId, isComplete) {
      shadow?.observe(query, decision, decisionId, isComplete);
      referee?.observe(query, decision, decisionId);
    },
    status: () => status,
    async prepare(role, policy) {
      const next = await compiled(policy);
      prepared.get(role)?.release();
      prepared.set(role, next);
    },
    install(role) {
      const next = prepared.get(role);
      if (next === undefined) return;
      prepared.delete(role);
      if (role === "active") {
        if (cedarAlone.has(next.revision)) next.useCedar();
        engine.replace(next);
        referee?.follow(next);
      } else shadow?.replace(next);
    },
    useCedar,
    changed(next) {
      status = next;
    },
    release() {
      for (const next of prepared.values()) next.release();
      shadow?.release();
      referee?.release();
      engine.release();
    },
  };
}

async function compiledBy(
  { policyEvaluator: evaluator }: PolicySettings,
  { bundle, checked }: GoodPolicy,
): Promise<CompiledEngine> {
  const { engine, problems = [] } = await compileInTurns(bundle, checked, { evaluator });
  if (engine === undefined) throw policyRefused(problems);
  return engine;
}
