/** The policy of a running service: what is in force, how it follows its directory, and the candidate beside it. */
import * as fileSystem from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { securityFields } from "../base/security-events.ts";
import type { Timers } from "../base/timers.ts";
import type { Config } from "../config/settings.ts";
import type { Ledger } from "../ledger/ports/ledger.ts";
import type { ComparedBundle } from "../policy/check/check.ts";
import { checkBundleInThread } from "../policy/check/check-thread.ts";
import type { CompiledEngine } from "../policy/engine/bundle-engine.ts";
import { compileInTurns } from "../policy/engine/engine.ts";
import { PolicyHolder } from "../policy/engine/holder.ts";
import type { PolicyBundle } from "../policy/load/bundle.ts";
import { readPolicyDirectory } from "../policy/load/directory.ts";
import { describeProblem, type PolicyProblem, sortProblems } from "../policy/load/problem.ts";
import { PolicyReloader, type PolicyStatus, type ReloadEvent, type ReloaderOptions } from "../policy/load/reloader.ts";
import { PolicyShadow, type ShadowSample } from "../policy/tools/shadow.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { PolicyRole } from "../telemetry/policy-metrics.ts";
import { type FirstPolicy, type FirstPolicySettings, readFirstPolicy } from "./first-policy.ts";
import { refereeOf } from "./policy-referee.ts";

export type PolicySettings = FirstPolicySettings &
  Pick<Config, "policyEvaluator" | "policyRefereePercent" | "shadowPolicyDir" | "shadowPercent" | "policyPollMs">;

export interface LivePolicyMachine {
  readonly timers: Timers;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** What decides, and what is known of it. */
export interface DecidingPolicy {
  /** Decides by the set in force at the moment of each question. */
  readonly engine: PolicyHolder;
  /** To be told of every decision that was made, for the candidate and the referee. */
  readonly observe: PolicyShadow["observe"];
  /** Whether the newest content of the directory is in force. */
  status(): PolicyStatus;
  /** Gives all memory back. Later decisions are denials. */
  release(): void;
}

/** A set that was found good, from which every thread makes an engine of its own. */
export interface GoodPolicy {
  readonly bundle: PolicyBundle;
  readonly checked: ComparedBundle;
}

/** Other threads that decide by the same sets. */
export interface PolicyFollowers {
  /** Has all of them compile it. Rejects where one cannot. */
  prepare(role: PolicyRole, policy: GoodPolicy): Promise<void>;
  /**
   * What they prepared for the role is in force, or is the candidate, in each of them when it resolves. Does not reject.
   * The first set is for those that are still to come.
   */
  install(role: PolicyRole, policy: GoodPolicy): Promise<void>;
  changed(status: PolicyStatus): void;
}

export interface LivePolicy extends DecidingPolicy {
  /**
   * Keeps the revision in force, and from then on each one before it decides. To be called before the first decision,
   * and before the directories are followed.
   */
  keepIn(ledger: Pick<Ledger, "keepPolicyRevision">): Promise<void>;
  /** Begins to follow the directories. */
  start(): void;
  /** Takes the directories as they are now. Does not reject. */
  reload(): Promise<void>;
  /** Stops following; decisions are still made. Resolves when nothing is under way. */
  stop(): Promise<void>;
}

/**
 * Loads the directory. Rejects with all that is wrong with it.
 *
 * @param begun what was begun of it while other code was loaded
 */
export async function openLivePolicy(
  settings: PolicySettings,
  machine: LivePolicyMachine,
  { followers, begun = readFirstPolicy(settings) }: { followers?: PolicyFollowers; begun?: Promise<FirstPolicy> } = {},
): Promise<LivePolicy> {
  const firstPolicy = await begun;
  const { first, bundle, checked } = await firstEngine(firstPolicy, settings);
  const engine = new PolicyHolder(first);
  const referee = refereeOf(settings, machine, engine);
  referee?.follow(first);
  await followers?.install("active", { bundle, checked });
  report("active", { type: "loaded", revision: engine.revision, disagreements: checked.disagreements }, machine);
  let revisions: Pick<Ledger, "keepPolicyRevision"> | undefined;
  const active = reloaderOf("active", settings.policyDir, settings, machine, followers, {
    known: firstPolicy.reading,
    async keep(revision, content) {
      if (revisions === undefined) throw new Error("there is no ledger to keep the revision yet");
      await revisions.keepPolicyRevision(revision, content);
    },
    current: () => engine.revision,
    install(next) {
      engine.replace(next);
      referee?.follow(next);
    },
  });
  const shadow = shadowOf(settings, machine);
  const reloader = candidateReloader(settings, machine, followers, shadow);
  const reloaders = reloader === undefined ? [active] : [active, reloader];
  return {
    engine,
    observe(query, decision, decisionId, isComplete) {
      shadow?.observe(query, decision, decisionId, isComplete);
      referee?.observe(query, decision, decisionId);
    },
    async keepIn(ledger) {
      await ledger.keepPolicyRevision(first.revision, first.contentBytes);
      revisions = ledger;
    },
    status: () => active.status,
    start() {
      for (const each of reloaders) each.start();
    },
    async reload() {
      await Promise.all(reloaders.map((each) => each.reload()));
    },
    async stop() {
      await Promise.all(reloaders.map((each) => each.stop()));
    },
    release() {
      shadow?.release();
      referee?.release();
      engine.release();
    },
  };
}

async function firstEngine({ reading, checked }: FirstPolicy, { policyEvaluator: evaluator }: PolicySettings) {
  const { bundle, problems } = reading;
  if (bundle === undefined || checked === undefined) throw policyRefused(problems);
  const { engine: first, problems: misjudged = [] } = await compileInTurns(bundle, checked, { evaluator });
  if (first !== undefined && problems.length === 0) return { first, bundle, checked };
  first?.release();
  throw policyRefused(sortProblems([...problems, ...misjudged]));
}

/** Names all that is wrong with it. */
export function policyRefused(problems: readonly PolicyProblem[]): Error {
  return new Error(`SVC_POLICY_DIR: the policy set is refused\n${problems.map(describeProblem).join("\n")}`);
}

/** What asks the candidate; undefined where there is to be none. */
export function shadowOf(
  { shadowPolicyDir, shadowPercent }: PolicySettings,
  machine: LivePolicyMachine,
): PolicyShadow | undefined {
  if (shadowPolicyDir === undefined) return undefined;
  const { timers, logger, metrics } = machine;
  return new PolicyShadow({
    share: shadowPercent / 100,
    random: Math.random,
    timers,
    elapsedMs: () => performance.now(),
    onCompared: (difference) =>
      metrics.shadowCompared(difference && { kind: difference.kind, tenant: difference.tenantId }),
    onDropped: metrics.shadowDropped,
    onSample: (sample) => logger.info(sampleFields(sample), "the candidate policy set decides differently"),
  });
}

/**
 * The candidate decides nothing, so nothing of it stops the service: one that is bad at start-up is reported and looked
 * at again when it changes. Its revisions are not kept, because no record names them.
 */
function candidateReloader(
  settings: PolicySettings,
  machine: LivePolicyMachine,
  followers: PolicyFollowers | undefined,
  shadow: PolicyShadow | undefined,
): PolicyReloader | undefined {
  const { shadowPolicyDir } = settings;
  if (shadowPolicyDir === undefined || shadow === undefined) return undefined;
  return reloaderOf("shadow", shadowPolicyDir, settings, machine, followers, {
    keep: async () => {},
    current: () => shadow.revision,
    install: (next) => shadow.replace(next),
  });
}

function reloaderOf(
  role: PolicyRole,
  directory: string,
  settings: PolicySettings,
  machine: LivePolicyMachine,
  followers: PolicyFollowers | undefined,
  parts: Pick<ReloaderOptions, "known" | "keep" | "current" | "install">,
): PolicyReloader {
  let prepared: GoodPolicy | undefined;
  machine.metrics.followed(whatOf[role]);
  const reloader: PolicyReloader = new PolicyReloader({
    ...parts,
    read: (before) => readPolicyDirectory(directory, fileSystem, settings, before),
    check: checkBundleInThread,
    pollMs: settings.policyPollMs,
    engine: { evaluator: settings.policyEvaluator },
    timers: machine.timers,
    onEvent: (event) => {
      report(role, event, machine);
      machine.metrics.reloaded(whatOf[role], event.type === "loaded" ? "taken" : event.type);
      if (role === "active") followers?.changed(reloader.status);
    },
    ...(followers !== undefined && {
      async share(bundle: PolicyBundle, checked: ComparedBundle) {
        prepared = { bundle, checked };
        await followers.prepare(role, prepared);
      },
      async install(engine: CompiledEngine) {
        await parts.install(engine);
        if (prepared !== undefined) await followers.install(role, prepared);
      },
    }),
  });
  return reloader;
}

/** As what the directories are followed, beside files. */
const whatOf = { active: "policy", shadow: "shadow_policy" } as const satisfies Record<PolicyRole, string>;

/** Lines of problems that one log line carries. */
const maxLoggedProblems = 20;

function report(role: PolicyRole, event: ReloadEvent, { logger, metrics }: LivePolicyMachine): void {
  switch (event.type) {
    case "loaded":
      metrics.policyLoaded(role, event.revision);
      logger.info(
        { ...securityFields("policy_changed"), what: whatOf[role], role, policy_revision: event.revision },
        "policy set in force",
      );
      if (event.disagreements === undefined) break;
      metrics.policySetsDisagree(role, event.disagreements.size);
      for (const [set, disagreement] of event.disagreements) {
        logger.error(
          { ...securityFields("policy_disagreement"), role, set, disagreement },
          "Cedar alone evaluates a set whose compiled policies differ from it",
        );
      }
      break;
    case "refused": {
      metrics.policyRefused(role, "refused");
      const problems = event.problems.slice(0, maxLoggedProblems).map(describeProblem);
      const fields = {
        ...securityFields("policy_refused"),
        what: whatOf[role],
        role,
        problem_count: event.problems.length,
      };
      logger.error({ ...fields, problems }, "policy set refused");
      break;
    }
    case "failed":
      metrics.policyRefused(role, "failed");
      logger.error(
        { ...securityFields("policy_refused"), what: whatOf[role], role, err: event.error },
        "policy set could not be taken; it is tried again",
      );
      break;
  }
}

function sampleFields({ tenantId, decisionId, action, active, candidate, difference, count }: ShadowSample) {
  return {
    tenant_id: tenantId,
    decision_id: decisionId,
    action,
    difference: difference.kind,
    guidance: difference.guidance,
    reasons: active.reasons,
    candidate_reasons: candidate.reasons,
    policy_revision: active.policyRevision,
    candidate_revision: candidate.policyRevision,
    count,
  };
}
