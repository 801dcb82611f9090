/** Records that one durable commit carries, collected before it. */
import { overloaded, ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { systemTimers, type Timers } from "../../base/timers.ts";
import { type Span, traced } from "../../base/trace.ts";
import type { Appended, RecordGroup, ShownOfRecord } from "../ports/ledger.ts";
import type { NewRecord } from "../ports/record.ts";
import type { Appender } from "./appender.ts";
import type { QueuedRecord } from "./queues.ts";

/** Records answered in one turn of the event loop. */
const toldAtOnce = 64;

/** How long a group waits for other groups of its tenant. Milliseconds. */
const maxRoomWaitMs = 1_000;

interface Room {
  records: number;
  readonly waiting: Set<() => void>;
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

  /** As `RecordGroup.enter`; `onEntered` receives the function that releases the room. */
  enter(tenantId: TenantId, count: number, onEntered: (leave: () => void) => void): Promise<void> | undefined {
    const room = this.#rooms.get(tenantId) ?? { records: 0, waiting: new Set() };
    this.#rooms.set(tenantId, room);
    const take = () => {
      room.records += count;
      onEntered(() => this.#leave(tenantId, room, count));
    };
    if (room.records >= this.#maxRecords || room.waiting.size > 0) return this.#turn(room, take);
    take();
    return undefined;
  }

  #turn(room: Room, take: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        cancel();
        room.waiting.delete(enter);
        take();
        resolve();
      };
      const cancel = this.#timers.after(maxRoomWaitMs, () => {
        room.waiting.delete(enter);
        reject(overloaded("too many records are waiting to be stored"));
      });
      room.waiting.add(enter);
    });
  }

  #leave(tenantId: TenantId, room: Room, count: number): void {
    room.records -= count;
    for (const enter of room.waiting) {
      if (room.records >= this.#maxRecords) break;
      enter();
    }
    if (room.records === 0) this.#rooms.delete(tenantId);
  }
}

interface Member extends PromiseWithResolvers<Appended> {
  readonly encoded: QueuedRecord;
}

interface GroupOptions {
  readonly tenantId: TenantId;
  readonly shown: ShownOfRecord | undefined;
  /** Receives the commit. Returns what settles as that does. */
  committing(commit: Promise<void>): Promise<void>;
}

export class QueuedGroup implements RecordGroup {
  readonly #appender: Pick<Appender, "encode" | "appendTogether">;
  readonly #rooms: GroupRooms;
  readonly #options: GroupOptions;
  readonly #members: Member[] = [];
  #leave: (() => void) | undefined;

  constructor(appender: Pick<Appender, "encode" | "appendTogether">, rooms: GroupRooms, options: GroupOptions) {
    this.#appender = appender;
    this.#rooms = rooms;
    this.#options = options;
  }

  enter(count: number): Promise<void> | undefined {
    return this.#rooms.enter(this.#options.tenantId, count, (leave) => {
      this.#leave = leave;
    });
  }

  leave(): void {
    this.#leave?.();
    this.#leave = undefined;
  }

  add(place: number, record: NewRecord): Promise<Appended> {
    const encoded = { ...this.#appender.encode(record), shown: this.#options.shown ?? "all" };
    const member = { ...Promise.withResolvers<Appended>(), encoded };
    this.#members[place] = member;
    return member.promise;
  }

  async commit(span?: Span): Promise<void> {
    // Refused records left empty places.
    const members = this.#members.filter((member) => member !== undefined);
    try {
      await this.#options.committing(traced(span, "ledger.append", (child) => this.#append(members, child)));
    } catch (refusal) {
      for (const { promise, reject } of members) {
        promise.catch(() => {});
        reject(refusal);
      }
      throw refusal;
    }
  }

  async #append(members: readonly Member[], span: Span | undefined): Promise<void> {
    const records = members.map(({ encoded }) => encoded);
    const results = await Promise.allSettled(this.#appender.appendTogether(this.#options.tenantId, records, span));
    const failed = results.find((result) => result.status === "rejected" && !isOfRecord(result.reason));
    if (failed?.status === "rejected") throw failed.reason;
    for (const [i, { resolve, reject }] of members.entries()) {
      // The caller's work on each result takes time too.
      if (i > 0 && i % toldAtOnce === 0) await new Promise(setImmediate);
      const result = results[i] as PromiseSettledResult<Appended>;
      if (result.status === "fulfilled") resolve(result.value);
      else reject(result.reason);
    }
  }
}

/** Whether a record was refused because of its content. A group that was not committed has none. */
function isOfRecord(refusal: unknown): boolean {
  return refusal instanceof ServiceError && ofRecords.has(refusal.reason);
}

const ofRecords: ReadonlySet<string> = new Set(["idempotency_conflict", "internal", "invalid_request"]);
