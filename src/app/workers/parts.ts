/** How what a service may use is divided among its workers, where they cannot have it in common. */
import { type AdmissionLimits, defaultAdmissionLimits } from "../../transport/admission/admission.ts";
import type { ServeConfig } from "../gateway.ts";

const maxWorkers = 64;

/** Threads that serve callers: on PostgreSQL `auto` makes no more of them than have a connection each. */
export function workersOf(
  { workers, store, storePoolSize }: Pick<ServeConfig, "workers" | "store" | "storePoolSize">,
  cores: number,
): number {
  if (workers !== "auto") return workers;
  return Math.max(1, Math.min(cores, maxWorkers, store.kind === "postgres" ? storePoolSize - 1 : maxWorkers));
}

/** Of the main thread, so that readiness is told while an operator reads; with few in all one must do for both. */
const connectionsOfMain = 2;

/** Connections to PostgreSQL: `SVC_STORE_POOL_SIZE` of them in all. It is at least one more than there are workers. */
export function connectionsOf({ storePoolSize }: Pick<ServeConfig, "storePoolSize">, workers: number) {
  const main = storePoolSize >= 2 * workers + connectionsOfMain ? connectionsOfMain : 1;
  const left = storePoolSize - main;
  const ofWorkers = Array.from({ length: workers }, (_, index) => Math.floor((left + workers - 1 - index) / workers));
  return { main, ofWorkers };
}

/**
 * Calls are admitted to an event loop, and each has one: what they may have begun, and what may wait, is divided; what
 * is begun in one turn is the turn's. A caller on one connection has one worker, and so its part.
 */
export function admissionFor(workers: number): AdmissionLimits {
  const part = (limit: number) => Math.ceil(limit / workers);
  const { minAtOnce, maxAtOnce, maxWaiting, ...others } = defaultAdmissionLimits;
  return { ...others, minAtOnce: part(minAtOnce), maxAtOnce: part(maxAtOnce), maxWaiting: part(maxWaiting) };
}
