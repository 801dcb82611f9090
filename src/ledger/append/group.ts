/** Records that one durable commit carries, collected before it. */
import { overloaded, ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { systemTimers, type Timers } from "../../base/timers.ts";
import { type Span, traced } from "../../base/trace.ts";
import type { Appended, RecordGroup, ShownOfRecord } from "../ports/ledger.ts";
import type { Appender } from "./appender.ts";
import type { QueuedRecord } from "./queues.ts";

/** Records answered in one turn of the event loop. */
const toldAtOnce = 64;

/** How long a group waits for other groups of its tenant. Milliseconds. */
const maxRoomWaitMs = 1_000;

interface Room {
  records: number;
  /** Admit the groups that wait, in order. */
  readonly waiting: Set<() => void>;
}

/** A group in its tenant's room. */
interface Place {
  /** 0 outside. */
  records: number;
}

/**
 * Reserves queue room for groups, by tenant, from before their records are made until they are committed. Without it a
 * group could make all its records only to find the queue full.
 */
export class GroupRooms {
  readonly #maxRecords: number;
  readonly #timers: Timers;
  readonly #rooms = new Map<TenantId, Room>();

  /** @param maxRecords bound from which the next group of a tenant waits */
  constructor(maxRecords: number, timers: Timers = systemTimers) {
    this.#maxRecords = maxRecords;
    this.#timers = timers;
  }

  /** As `RecordGroup.enter`. */
  enter(tenantId: TenantId, place: Place, count: number): Promise<void> | undefined {
    const room = this.#rooms.get(tenantId) ?? { records: 0, waiting: new Set() };
    this.#rooms.set(tenantId, room);
    const take = () => {
      room.records += count;
      place.records = count;
    };
    if (room.records < this.#maxRecords && room.waiting.size === 0) {
      take();
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const admit = () => {
        cancel();
        room.waiting.delete(admit);
        take();
        resolve();
      };
      const cancel = this.#timers.after(maxRoomWaitMs, () => {
        room.waiting.delete(admit);
        reject(overloaded("too many records are waiting to be stored"));
      });
      room.waiting.add(admit);
    });
  }

  leave(tenantId: TenantId, place: Place): void {
    const room = this.#rooms.get(tenantId);
    if (room === undefined) return;
    room.records -= place.records;
    place.records = 0;
    for (const admit of room.waiting) {
      if (room.records >= this.#maxRecords) break;
      admit();
    }
    if (room.records === 0) this.#rooms.delete(tenantId);
  }
}

interface GroupContext {
  readonly appender: Pick<Appender, "encode" | "appendTogether">;
  readonly rooms: GroupRooms;
  /** Receives the commit. Returns what settles as that does. */
  committing(commit: Promise<void>): Promise<void>;
}

/** Begins a group of a tenant's records. `shown`: what their receipts must contain at least. */
export function recordGroup(
  { appender, rooms, committing }: GroupContext,
  tenantId: TenantId,
  shown: ShownOfRecord = "all",
): RecordGroup {
  const place: Place = { records: 0 };
  const members: (QueuedRecord & PromiseWithResolvers<Appended>)[] = [];
  return {
    enter: (count) => rooms.enter(tenantId, place, count),
    leave: () => rooms.leave(tenantId, place),
    add(at, record) {
      const member = { ...appender.encode(record), shown, ...Promise.withResolvers<Appended>() };
      members[at] = member;
      return member.promise;
    },
    async commit(span) {
      // Refused records left empty places.
      const added = members.filter((member) => member !== undefined);
      const append = async (child: Span | undefined) => {
        const results = await Promise.allSettled(appender.appendTogether(tenantId, added, child));
        const failed = results.find((result) => result.status === "rejected" && !isOfRecord(result.reason));
        if (failed?.status === "rejected") throw failed.reason;
        for (const [i, { resolve, reject }] of added.entries()) {
          // The caller's work on each result takes time too.
          if (i > 0 && i % toldAtOnce === 0) await new Promise(setImmediate);
          const result = results[i] as PromiseSettledResult<Appended>;
          if (result.status === "fulfilled") resolve(result.value);
          else reject(result.reason);
        }
      };
      try {
        await committing(traced(span, "ledger.append", append));
      } catch (refusal) {
        for (const { promise, reject } of added) {
          promise.catch(() => {});
          reject(refusal);
        }
        throw refusal;
      }
    },
  };
}

/** Whether a record was refused because of its content. A group that was not committed has none. */
function isOfRecord(refusal: unknown): boolean {
  return refusal instanceof ServiceError && ofRecords.has(refusal.reason);
}

const ofRecords: ReadonlySet<string> = new Set(["idempotency_conflict", "internal", "invalid_request"]);
