/** Makes a key the one that signs the logs of a store. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill } from "../../../base/ids.ts";
import { seedBytes } from "../../../ledger/append/sequence.ts";
import type { ErasureStatement } from "../../../ledger/record/erasure.ts";
import { recordText } from "../../../ledger/record/record-text.ts";
import { rotationRecord } from "../../../ledger/record/rotation.ts";
import type { SqliteConnection } from "../connection.ts";
import type { SqliteAnchor } from "./anchor.ts";
import { LogRows } from "./log-rows.ts";
import { LogWriter } from "./log-writer.ts";

export interface Admission {
  /** 32 bytes, like the other. */
  readonly current: Uint8Array;
  /** The key that signed until now; undefined where none did. */
  readonly previous: Uint8Array | undefined;
  readonly statement: ErasureStatement | undefined;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/**
 * Notes the key, inside a transaction that the caller holds. Where it follows another, every log gets a leaf that says
 * so: the old key counts up to that leaf only.
 */
export function admitKey(connection: SqliteConnection, anchor: SqliteAnchor, admission: Admission): void {
  const { current, previous, statement, clock, random } = admission;
  connection
    .prepare("INSERT INTO signing_keys (position, public_key) SELECT count(*), ? FROM signing_keys")
    .run(current);
  if (previous === undefined) return;
  // Every log exists, so no origin is made here.
  const writer = new LogWriter(connection, anchor, "");
  for (const { tenantId } of [...new LogRows(connection).heads()]) {
    const records = [recordText(rotationRecord(tenantId, { current, previous, statement, clock, random }))];
    writer.append({ tenantId, records, seed: random(new Uint8Array(seedBytes(1))) }, clock.now());
  }
}
