/** Records, clocks and randomness for the ledger's tests. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import {
  newRecordId,
  parsePrincipalId,
  parseRequestId,
  parseTenantId,
  type RandomFill,
  type TenantId,
} from "../../src/base/ids.ts";
import type { Receipt } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import type { GivenReceipt } from "../../src/ledger/record/receipt.ts";
import type { StorePaths } from "../../src/stores/sqlite/paths.ts";

/** A clock that stands where the test puts it. */
export interface ManualClock extends Clock {
  nowMs: number;
}

export function manualClock(nowMs = Date.UTC(2026, 0, 2, 3, 4, 5, 6)): ManualClock {
  return {
    nowMs,
    now() {
      return this.nowMs;
    },
  };
}

/** Bytes that look random, differ at every call and are the same in every run of the same seed. */
export function seededRandom(seed = "seed"): RandomFill {
  let counter = 0;
  return (bytes) => {
    for (let offset = 0; offset < bytes.length; offset += 32) {
      const block = createHash("sha256").update(`${seed}/${counter++}`).digest();
      bytes.set(block.subarray(0, Math.min(32, bytes.length - offset)), offset);
    }
    return bytes;
  };
}

export function tenant(text: string): TenantId {
  return parsed(parseTenantId(text));
}

/** Makes records; each has an id of its own. */
export function recordMaker(clock: Clock, random: RandomFill) {
  return (tenantId: TenantId, changes: Partial<NewRecord> = {}): NewRecord => ({
    kind: "decision",
    recordId: newRecordId(clock, random),
    tenantId,
    requestId: parsed(parseRequestId("request-1")),
    caller: {
      principal_id: parsed(parsePrincipalId("principal-1")),
      subject: "subject-1",
      auth_source: "bearer_token",
    },
    route: "/v1/sdk/protection-plan",
    request: { operation: "protect", workload: { application: "billing" }, labels: ["pii"], content_size_bytes: 12 },
    outcome: { allow: true, reasons: ["platform.allow"] },
    policyRevision: "sha256:0123",
    ...changes,
  });
}

/** What a file's tests need for records: a clock, randomness of its own seed, and a maker. */
export function recordKit(seed?: string, nowMs?: number) {
  const clock = manualClock(nowMs);
  const random = seededRandom(seed);
  return { clock, random, makeRecord: recordMaker(clock, random) };
}

function parsed<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("The test's own value is malformed.");
  return value;
}

/** The parts of a store in one directory. */
export function storeIn(directory: string): StorePaths & { readonly keyPath: string } {
  return {
    path: join(directory, "platform.db"),
    anchorPath: join(directory, "platform.db.anchor"),
    keyPath: join(directory, "ledger.key"),
  };
}

/** A receipt as an answer carries it. */
export function givenOf({
  recordId,
  logOrigin,
  leafIndex,
  treeSize,
  leafHash,
  proof,
  ...shown
}: Receipt): GivenReceipt {
  const position = { record_id: recordId, log_origin: logOrigin, leaf_index: leafIndex, tree_size: treeSize };
  const { leaf, opening, record } = shown;
  return {
    ...position,
    leaf_hash: leafHash,
    proof,
    ...(leaf !== undefined && { leaf }),
    ...(opening !== undefined && { opening }),
    ...(record !== undefined && { record }),
  };
}
