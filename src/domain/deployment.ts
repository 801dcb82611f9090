/** The deployment's choices about answers, and the services behind them. */
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import type { ArtifactProfile, ProtectionOperation } from "../base/vocabulary.ts";
import type { Ledger } from "../ledger/ports/ledger.ts";
import type { LivePlatform } from "./platform-domains.ts";
import type { ScopeTable } from "./routes.ts";

/** Fixed while the process runs. */
export interface Deployment {
  readonly supportedOperations: readonly ProtectionOperation[];
  readonly supportedProfiles: readonly ArtifactProfile[];
  readonly scopes: ScopeTable;
  /** Whether answers name the policies that decided. Records always do. */
  readonly showReasons: boolean;
  /** Age up to which a decision may be cited, in seconds. */
  readonly decisionMaxAgeSeconds: number;
  /** Whether a key reference is another spelling of one that may be managed. */
  readonly isKeyReferenceAlias: (reference: string) => boolean;
}

export type RecordingLedger = Pick<Ledger, "append" | "find" | "registrations">;

export interface DomainDependencies {
  readonly deployment: Deployment;
  readonly live: LivePlatform;
  readonly ledger: RecordingLedger;
  readonly clock: Clock;
  readonly random: RandomFill;
}
