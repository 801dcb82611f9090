/** How much memory the process may use, and how near it is to that. */
import { totalmem } from "node:os";
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";

/** Of the container, where it is limited; else of the machine. Bytes. */
export function memoryLimitBytes(): number {
  // 0, or more than there is, where there is no limit.
  return Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}

/** Share of either limit from which on large bodies come one by one, and from which on calls do not wait. */
const tightShare = 0.75;
const shortShare = 0.9;
/** Looking costs some microseconds: once in so many milliseconds is enough. */
const lookAgainMs = 20;

export interface MemoryWatch {
  /** Whether there is little left. */
  readonly isTight: () => boolean;
  /** Whether there is next to nothing left. */
  readonly isShort: () => boolean;
}

/** Watches what is resident of the process, and the heap of this thread. */
export function watchMemory(limitBytes = memoryLimitBytes()): MemoryWatch {
  let share = 0;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  const look = () => {
    const nowMs = performance.now();
    if (nowMs - lookedAtMs < lookAgainMs) return share;
    lookedAtMs = nowMs;
    const { used_heap_size: heapBytes, heap_size_limit: heapLimitBytes } = getHeapStatistics();
    share = Math.max(process.memoryUsage.rss() / limitBytes, heapBytes / heapLimitBytes);
    return share;
  };
  return { isTight: () => look() > tightShare, isShort: () => look() > shortShare };
}
