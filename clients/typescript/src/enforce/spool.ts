/**
 * Evidence that is on its way: an event is on disk before the work that it tells of begins, and leaves the disk only when
 * the ledger has it. What a killed process began is sent as `aborted` by the next one.
 */
import { randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { callProblem, EnforcementError } from "./errors.ts";
import { alone, createFile, ownFolder, replaceFile, requireOwn, syncDirectory } from "./files.ts";
import type { Accepted, EvidenceEvent, Platform } from "./platform.ts";
import { isRunning, ownProcess, type ProcessMark } from "./processes.ts";
import { addReceipt, readReceipts } from "./receipts.ts";

interface Entry {
  readonly version: 1;
  /** Idempotency key of the event. */
  readonly id: string;
  /** Who is still at it; absent once the outcome is known. */
  readonly at_work?: ProcessMark;
  /** From when on nothing else is done until the ledger has it: RFC 3339. */
  readonly due_at: string;
  readonly event: EvidenceEvent;
  /** Receipts file to which the receipt is added. */
  readonly receipts_file?: string;
}

export interface SpoolOptions {
  /** Folder on a local disk, of one machine; made where missing. Holds metadata only. */
  readonly directory: string;
  readonly platform: Pick<Platform, "recordEvidence">;
  /** Rejects where the answer shows no record of this event: then it is not known to be on the ledger. */
  readonly checkReceipt?: (event: EvidenceEvent, answer: Accepted, signal: AbortSignal | undefined) => Promise<void>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** An event on its way. */
export interface PendingEvidence {
  readonly id: string;
  /**
   * Replaces what is known of the event, or after it was sent tells more; durable when it resolves. If it cannot be
   * written, the event stays what it was, and nobody is at it any more.
   */
  settle(changes: Partial<EvidenceEvent>, receiptsFile?: string): Promise<void>;
  /** Sends it. Where that did not succeed it is kept, and `problem` is why. */
  send(signal?: AbortSignal): Promise<{ readonly receipt: JsonObject | undefined } | { readonly problem: unknown }>;
}

export class EvidenceSpool {
  readonly #options: SpoolOptions;
  /** Ids of events that this process left as they were. */
  readonly #left = new Set<string>();

  constructor(options: SpoolOptions) {
    this.#options = options;
  }

  /** Keeps an event of work that begins now, with the outcome it has if nobody comes back to it. */
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
    await createFile(this.#pathOf(entry.id), bytesOf(entry));
    return {
      id: entry.id,
      settle: async (changes, receiptsFile) => {
        const { at_work, ...others } = entry;
        const settled: Entry = {
          ...others,
          // What was sent may have arrived, and an idempotency key stands for one event: this is another.
          ...(isTried && { id: randomUUID() }),
          event: { ...entry.event, ...changes },
          ...(receiptsFile !== undefined && { receipts_file: receiptsFile }),
        };
        try {
          await replaceFile(this.#pathOf(settled.id), bytesOf(settled));
        } catch (error) {
          // After it was sent, this is another event, which nothing on disk is of: it can be sent all the same.
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
        }
      },
    };
  }

  /**
   * Sends all that waits. Rejects with `evidence_overdue` where an event could not be sent that is due: until it is on
   * the ledger nothing else is done.
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
        if (Date.parse(entry.due_at) <= this.#options.now()) overdue ??= { id: entry.id, cause };
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
      await placeReceipt(entry.receipts_file, entry.id, receipt);
    for (const path of [this.#pathOf(entry.id), this.#leftPathOf(entry.id)]) await rm(path, { force: true });
    this.#left.delete(entry.id);
    await syncDirectory(this.#options.directory);
    return receipt;
  }

  /** Lets every process send an event that is on disk. A new name takes no room on a disk that is full. */
  async #leave(id: string): Promise<void> {
    this.#left.add(id);
    await rename(this.#pathOf(id), this.#leftPathOf(id)).catch(() => {});
  }

  /** Oldest first. A file that is no entry fails: what it was is not known to be sent. */
  async #entries(): Promise<readonly Entry[]> {
    const names = await readdir(this.#options.directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw new EnforcementError("evidence_overdue", "the evidence spool cannot be read", { cause: error });
    });
    if (names.length > 0) await requireOwn(this.#options.directory);
    const entries: Entry[] = [];
    for (const name of names) {
      const [, left] = /^[0-9a-f-]{36}(\.left)?\.json$/.exec(name) ?? [undefined, "none"];
      if (left === "none") continue;
      const entry = await readEntry(join(this.#options.directory, name));
      if (entry === undefined) continue;
      const { at_work, ...others } = entry;
      entries.push(left === undefined ? entry : others);
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

/** Adds a receipt, if the file is of this event, while no writer of the same output places its own. */
async function placeReceipt(path: string, id: string, receipt: JsonObject): Promise<void> {
  const found = await readReceipts(path).catch(() => undefined);
  if (found?.evidence_id === id) await alone(path, () => addReceipt(path, id, receipt));
}

async function readEntry(path: string): Promise<Entry | undefined> {
  try {
    const entry = JSON.parse(await readFile(path, "utf8")) as Partial<Entry>;
    if (entry.version !== 1 || entry.event === undefined) throw new SyntaxError("no entry");
    return entry as Entry;
  } catch (cause) {
    // Another process sent it meanwhile.
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new EnforcementError("evidence_overdue", `${path} cannot be read, so it cannot be sent`, { cause });
  }
}

function bytesOf(entry: Entry): Uint8Array {
  return Buffer.from(`${JSON.stringify(entry)}\n`);
}
