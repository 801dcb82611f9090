/**
 * Pending evidence: an event is on disk before its work begins, and leaves the disk only when the ledger has it. Events
 * of a killed process are sent as `aborted` by the next one.
 *
 * Each line of a file is the event as it became known, and the last complete line counts: a killed process, or a full
 * disk, may leave a part of a line.
 */
import { randomUUID } from "node:crypto";
import { readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { callProblem, EnforcementError } from "./errors.ts";
import {
  alone,
  appendFile,
  ownFolder,
  removeFile,
  replaceFile,
  requireOwn,
  sweepPartials,
  syncDirectory,
} from "./files.ts";
import type { Accepted, EvidenceEvent, Platform } from "./platform.ts";
import { isRunning, ownProcess, type ProcessMark } from "./processes.ts";
import { addReceipt, readReceipts } from "./receipts.ts";

interface Entry {
  readonly version: 1;
  /** Idempotency key of the event. */
  readonly id: string;
  /** The working process; absent once the outcome is known. */
  readonly at_work?: ProcessMark;
  /** Time after which all other work stops until the ledger has it: RFC 3339. */
  readonly due_at: string;
  readonly event: EvidenceEvent;
  /** Receipts file that gets the receipt, if it can be written until the event is due. */
  readonly receipts_file?: string;
}

export interface SpoolOptions {
  /** Folder on a local disk of one machine; created if missing. Holds only metadata. */
  readonly directory: string;
  readonly platform: Pick<Platform, "recordEvidence">;
  /** Rejects if the answer does not prove the record of this event, which then may not be on the ledger. */
  readonly checkReceipt?: (event: EvidenceEvent, answer: Accepted, signal: AbortSignal | undefined) => Promise<void>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** A pending event. */
export interface PendingEvidence {
  readonly id: string;
  /**
   * Updates the event, or, after it was sent, adds another one; durable when it resolves. If it cannot be written, the
   * event stays as it was, without a working process.
   */
  settle(changes: Partial<EvidenceEvent>, receiptsFile?: string): Promise<void>;
  /** Sends it. If that fails, it is kept, and `problem` is the reason. */
  send(signal?: AbortSignal): Promise<{ readonly receipt: JsonObject | undefined } | { readonly problem: unknown }>;
}

export class EvidenceSpool {
  readonly #options: SpoolOptions;
  /** Ids of events that any process may send, although the one at work still runs. */
  readonly #left: Set<string>;
  /** Ids of events whose work in this process sends them itself. */
  readonly #held: Set<string>;

  constructor(options: SpoolOptions, left = new Set<string>(), held = new Set<string>()) {
    this.#options = options;
    this.#left = left;
    this.#held = held;
  }

  /** The same spool, whose events are sent in another way. */
  through(platform: SpoolOptions["platform"]): EvidenceSpool {
    return new EvidenceSpool({ ...this.#options, platform }, this.#left, this.#held);
  }

  /** Stores an event of work that begins now, with the outcome it has if the process dies. */
  async begin(event: Omit<EvidenceEvent, "outcome" | "occurred_at">, toleranceMs: number): Promise<PendingEvidence> {
    const nowMs = this.#options.now();
    await ownFolder(this.#options.directory);
    let entry: Entry = {
      version: 1,
      id: randomUUID(),
      at_work: ownProcess(),
      due_at: new Date(nowMs + toleranceMs).toISOString(),
      event: { ...event, outcome: "aborted", occurred_at: new Date(nowMs).toISOString() },
    };
    let isTried = false;
    this.#held.add(entry.id);
    await replaceFile(this.#pathOf(entry.id), lineOf(entry));
    return {
      id: entry.id,
      settle: async (changes, receiptsFile) => {
        const { at_work, ...others } = entry;
        const settled: Entry = {
          ...others,
          // The first event may have arrived, and an idempotency key identifies one event: this is another.
          ...(isTried && { id: randomUUID() }),
          event: { ...entry.event, ...changes },
          ...(receiptsFile !== undefined && { receipts_file: receiptsFile }),
        };
        this.#held.add(settled.id);
        try {
          if (isTried) await replaceFile(this.#pathOf(settled.id), lineOf(settled));
          else await appendFile(this.#pathOf(settled.id), lineOf(settled));
        } catch (error) {
          // After the first was sent, this is another event, which is not on disk but can still be sent.
          if (isTried) entry = settled;
          else await this.#leave(entry.id);
          throw error;
        }
        entry = settled;
        isTried = false;
      },
      send: async (signal) => {
        isTried = true;
        try {
          return { receipt: await this.#send(entry, signal) };
        } catch (problem) {
          return { problem };
        } finally {
          this.#held.delete(entry.id);
        }
      },
    };
  }

  /**
   * Sends everything pending. Rejects with `evidence_overdue` if an overdue event could not be sent: until it is on the
   * ledger all other work stops.
   */
  async flush(signal?: AbortSignal): Promise<{ readonly sent: number; readonly waiting: number }> {
    let sent = 0;
    let waiting = 0;
    let overdue: { readonly id: string; readonly cause: unknown } | undefined;
    for (const entry of await this.#entries()) {
      if (entry.at_work !== undefined && !this.#left.has(entry.id) && isRunning(entry.at_work)) continue;
      try {
        await this.#send(entry, signal);
        sent++;
      } catch (cause) {
        waiting++;
        if (this.#isDue(entry)) overdue ??= { id: entry.id, cause };
      }
    }
    if (overdue !== undefined) {
      const what = `evidence ${overdue.id} is overdue and cannot be sent: ${callProblem(overdue.cause)}`;
      throw new EnforcementError("evidence_overdue", what, { cause: overdue.cause });
    }
    return { sent, waiting };
  }

  async #send(entry: Entry, signal?: AbortSignal): Promise<JsonObject | undefined> {
    const answer = await this.#options.platform.recordEvidence(entry.event, entry.id, signal);
    const { accepted, receipt } = answer;
    await this.#options.checkReceipt?.(entry.event, answer, signal);
    if (!accepted) throw new EnforcementError("unavailable", "the event was not accepted");
    if (entry.receipts_file !== undefined && receipt !== undefined)
      await placeReceipt(entry.receipts_file, entry.id, receipt).catch((cause: unknown) => {
        // The ledger has the event: a folder that takes no file does not make it overdue.
        if (!this.#isDue(entry)) throw cause;
      });
    await removeFile(this.#pathOf(entry.id));
    if (this.#left.delete(entry.id)) await removeFile(this.#leftPathOf(entry.id));
    await syncDirectory(this.#options.directory);
    return receipt;
  }

  #isDue({ due_at }: Entry): boolean {
    return Date.parse(due_at) <= this.#options.now();
  }

  /** Lets any process send an event on disk. Renaming works on a full disk. */
  async #leave(id: string): Promise<void> {
    this.#left.add(id);
    this.#held.delete(id);
    await rename(this.#pathOf(id), this.#leftPathOf(id)).catch(() => {});
  }

  /** Oldest first. Fails on a malformed file: its event may not have been sent. */
  async #entries(): Promise<readonly Entry[]> {
    const names = await readdir(this.#options.directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw new EnforcementError("evidence_overdue", "the evidence spool cannot be read", { cause: error });
    });
    if (names.length > 0) await requireOwn(this.#options.directory);
    const entries: Entry[] = [];
    for (const name of names) {
      const [, id = "", left, partial] = /^\.?([0-9a-f-]{36})(\.left)?\.json(\..+\.partial)?$/.exec(name) ?? [];
      if (id === "" || this.#held.has(id)) continue;
      if (partial !== undefined) await sweepPartials(this.#pathOf(id));
      if (left !== undefined) this.#left.add(id);
      const entry = partial === undefined ? await readEntry(join(this.#options.directory, name)) : undefined;
      if (entry !== undefined) entries.push(entry);
    }
    return entries.sort((a, b) => (a.event.occurred_at < b.event.occurred_at ? -1 : 1));
  }

  #pathOf(id: string): string {
    return join(this.#options.directory, `${id}.json`);
  }

  #leftPathOf(id: string): string {
    return join(this.#options.directory, `${id}.left.json`);
  }
}

/** Adds a receipt, if the file belongs to this event, while no writer of the same output places its own. */
async function placeReceipt(path: string, id: string, receipt: JsonObject): Promise<void> {
  const found = await readReceipts(path).catch(() => undefined);
  if (found?.evidence_id === id) await alone(path, () => addReceipt(path, id, receipt));
}

async function readEntry(path: string): Promise<Entry | undefined> {
  try {
    const complete = (await readFile(path, "utf8")).split("\n").slice(0, -1);
    const entry = JSON.parse(complete.findLast((line) => line !== "") ?? "") as Partial<Entry>;
    if (entry.version !== 1 || entry.event === undefined) throw new SyntaxError("no entry");
    return entry as Entry;
  } catch (cause) {
    // Another process sent it meanwhile.
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new EnforcementError("evidence_overdue", `${path} cannot be read, so it cannot be sent`, { cause });
  }
}

/** The first line break ends the rest of an earlier attempt. */
function lineOf(entry: Entry): Uint8Array {
  return Buffer.from(`\n${JSON.stringify(entry)}\n`);
}
