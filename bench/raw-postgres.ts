/** What PostgreSQL itself can do: rows of the ledger's size, inserted and committed by one connection. */
import { randomFillSync } from "node:crypto";
import { Client } from "pg";
import { systemClock } from "../src/base/clock.ts";
import { newRecordId, type RandomFill } from "../src/base/ids.ts";
import { seedBytes, sequence } from "../src/ledger/append/sequence.ts";
import { writeRecord } from "../src/ledger/record/record-text.ts";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { makeRecord } from "./raw-sqlite.ts";

const random: RandomFill = (bytes) => randomFillSync(bytes);
const entries = `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed)
  SELECT 'tenant-0', entry.* FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[]) AS entry`;
const openings = `INSERT INTO openings (tenant_id, record_id, opening)
  SELECT 'tenant-0', opening.* FROM unnest($1::text[], $2::bytea[]) AS opening`;

/**
 * Rows a second, in transactions of `batch` rows, one multi-row insert a table.
 * @param url of an empty database
 */
export async function measureRawPostgres(
  url: string,
  batch: number,
  measureMs: number,
  warmUpMs: number,
): Promise<number> {
  await migratePostgres({ target: targetOf(url), random });
  const head = { origin: "bench.example/logs/0", size: 1, lastRecordedAtMs: 0 };
  const [sample] = sequence(
    head,
    [writeRecord(makeRecord(0))],
    systemClock.now(),
    random(new Uint8Array(seedBytes(1))),
    "",
  ).entries;
  if (sample === undefined) throw new Error("no sample");
  const [leaves, sealed, opened] = [sample.leaf, sample.sealed, sample.opening].map((bytes) =>
    Array.from({ length: batch }, () => Buffer.from(bytes)),
  );
  const client = new Client({ connectionString: url });
  await client.connect();
  let rows = 0;
  const insertUntil = async (end: number) => {
    while (performance.now() < end) {
      const ids = Array.from({ length: batch }, () => newRecordId(systemClock, random));
      const indices = ids.map((_, at) => rows + at);
      await client.query("BEGIN");
      await client.query({ name: "entries", text: entries, values: [indices, ids, leaves, sealed] });
      await client.query({ name: "openings", text: openings, values: [ids, opened] });
      await client.query("COMMIT");
      rows += batch;
    }
  };
  try {
    await insertUntil(performance.now() + warmUpMs);
    const before = rows;
    const began = performance.now();
    await insertUntil(began + measureMs);
    return (rows - before) / ((performance.now() - began) / 1_000);
  } finally {
    await client.end();
  }
}
