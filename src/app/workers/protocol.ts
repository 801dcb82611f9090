/** What the main thread of a service and its workers do for each other. */
import { type Network, parseNetwork } from "../../base/network.ts";
import type { SumTable } from "../../base/sums.ts";
import type { CheckResult, Readiness } from "../../ops/readiness.ts";
import type { PolicyStatus } from "../../policy/load/reloader.ts";
import type { MetricsSnapshot } from "../../telemetry/merged-metrics.ts";
import type { PolicyRole } from "../../telemetry/policy-metrics.ts";
import type { TracingSettings } from "../../telemetry/tracing/tracing.ts";
import type { FileTexts, FollowedName } from "../followed-files.ts";
import type { FirstPolicy } from "../followed-policy.ts";
import type { ServeConfig } from "../gateway.ts";
import type { PolicyPart } from "./policy-offers.ts";

/** What a worker does when the main thread asks. */
export interface WorkerCalls {
  /** Listens on a port that other workers listen on as well; resolves with it. Port 0: any free one. */
  listen(port: number): Promise<number>;
  /** Takes the policy that is on offer under the number, and compiles it. */
  preparePolicy(role: PolicyRole, offer: number): Promise<void>;
  installPolicy(role: PolicyRole): void;
  useCedar(revision: string): void;
  policyChanged(status: PolicyStatus): void;
  /** Another thread saw the keys of this issuer change. */
  followKeys(issuer: string): void;
  /** Takes up files that the main thread found good. Rejects where they are not good here. */
  takeFiles(what: FollowedName, texts: FileTexts): Promise<void>;
  /** Readiness checks of what each worker has of its own. */
  checks(): Promise<readonly CheckResult[]>;
  metrics(): Promise<MetricsSnapshot>;
  /** Lets what is in flight finish and releases everything; resolves with whether nothing was cut off. */
  close(): Promise<boolean>;
}

/** What the main thread does when a worker asks. */
export interface MainCalls {
  /** The worker has been built and can listen, or why not. */
  built(problem?: string): void;
  /** Lines of the log. */
  log(lines: string): void;
  readiness(): Promise<Readiness>;
  /** A part of the policy that is on offer under the number, from 0. */
  policyPart(offer: number, index: number): PolicyPart;
  /** Compiled policies of the revision were seen to disagree with Cedar: no worker decides by them any more. */
  policyDisagrees(revision: string): void;
  /** The worker saw the keys of this issuer change. */
  keysChanged(issuer: string): void;
  /** Resolves when the party has a slot of those that all workers share, under this number. */
  takeSlot(party: string, slot: number): Promise<void>;
  /** Gives the slot back, or waits for it no more. */
  leaveSlot(slot: number): void;
}

/** The policies that a worker begins with, by the numbers that they are on offer under. */
export interface OfferedPolicy extends Omit<FirstPolicy, "active" | "shadow"> {
  readonly active: number;
  readonly shadow: number | undefined;
}

/** What a worker starts with. */
export interface WorkerStart {
  readonly config: ClonableConfig;
  /** Which of how many it is, from 0. */
  readonly index: number;
  readonly workers: number;
  readonly sums: SumTable;
  /** What the main thread shares of its store; absent where the worker opens one of its own. */
  readonly store: unknown;
  readonly policy: OfferedPolicy;
  readonly files: ReadonlyMap<FollowedName, FileTexts>;
  /** Where traces go; nowhere where absent. */
  readonly tracing: TracingSettings | undefined;
}

/** Configuration as a message carries it: addresses are objects of a class, and go as text. */
export interface ClonableConfig extends Omit<ServeConfig, "trustedProxies"> {
  readonly trustedProxies: readonly string[];
}

export function toMessage({ trustedProxies, ...config }: ServeConfig): ClonableConfig {
  const text = ({ address, prefixLength }: Network) => `${address.toString()}/${prefixLength}`;
  return { ...config, trustedProxies: trustedProxies.map(text) };
}

export function fromMessage({ trustedProxies, ...config }: ClonableConfig): ServeConfig {
  return { ...config, trustedProxies: trustedProxies.flatMap((text) => parseNetwork(text) ?? []) };
}
