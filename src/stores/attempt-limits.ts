/** What is asked of counters of attempts, and what they answer. */
import type { TenantId } from "../base/ids.ts";

/** So many attempts in a window, which begins with the first of them. */
export interface AttemptLimit {
  /** Undefined where the counter belongs to no tenant. */
  readonly tenantId: TenantId | undefined;
  /** Names what is counted: 1 to 64 characters. */
  readonly counter: string;
  readonly maximum: number;
  readonly windowMs: number;
}

/** A limit under which no attempt is let through now. */
export interface ReachedLimit {
  readonly counter: string;
  /** Milliseconds until its window ends. */
  readonly waitMs: number;
}
