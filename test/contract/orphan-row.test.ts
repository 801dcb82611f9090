/** A row that stands behind a log's head, as after a restore that mixed two copies. */
import { expect, test } from "vitest";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { run, settingsForTest } from "../unit/cli/surroundings.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";

const server = await forFile(sharedPostgres());

const stores = [
  ["SQLite", async () => sqliteFixture()],
  ["PostgreSQL", async () => postgresFixture(server)],
] as const;

test.each(stores)("on %s the log is not continued, and others are", async (_name, makeFixture) => {
  const { clock, random, makeRecord } = recordKit();
  const fixture = await makeFixture();
  const ledger = await fixture.open({ clock, random });
  await ledger.append(makeRecord(tenant("alice")));
  await fixture.query(
    `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed)
     SELECT tenant_id, 2, 'stray', leaf, sealed FROM entries WHERE leaf_index = 1`,
  );
  await expect(ledger.append(makeRecord(tenant("alice")))).rejects.toMatchObject({
    reason: "store_unavailable",
    message: "The log cannot be continued.",
    details: { cause: { message: expect.stringContaining("behind its head") } },
  });
  await ledger.append(makeRecord(tenant("bob")));
});

/** Rows that no log has: behind the head of alice's two leaves, without an entry, or of a tenant without a log. */
const strays: readonly (readonly [table: string, name: string, sql: string])[] = [
  ...[2, 7].map((leaf) => {
    const values = `tenant_id, ${leaf}, 'stray-${leaf}', leaf, sealed FROM entries WHERE leaf_index = 1`;
    const sql = `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) SELECT ${values}`;
    return ["entries", `leaf ${leaf}`, sql] as const;
  }),
  [
    "entries",
    "leaf 0",
    "INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) SELECT 'nobody', 0, 'x', leaf, sealed FROM entries WHERE leaf_index = 1",
  ],
  [
    "openings",
    "record gone",
    "INSERT INTO openings (tenant_id, record_id, opening) SELECT tenant_id, 'gone', opening FROM openings LIMIT 1",
  ],
  ["erasures", "record gone", "INSERT INTO erasures VALUES ('alice', 'gone', 1, 2)"],
  ["legal_holds", "record gone", "INSERT INTO legal_holds VALUES ('alice', 'gone', 'case', 0)"],
  [
    "kept_answers",
    "leaf 9",
    `INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms)
     SELECT tenant_id, root, 9, 10, 0 FROM log_heads`,
  ],
  [
    "search_segments",
    "leaf 2049",
    `INSERT INTO search_segments (tenant_id, first_leaf, end_leaf, terms)
     SELECT tenant_id, 2049, 2050, terms FROM search_segments LIMIT 1`,
  ],
  ["registered_artifacts", "leaf 9", "INSERT INTO registered_artifacts SELECT tenant_id, root, 1, 9 FROM log_heads"],
  ...[
    [0, 1],
    [1, 0],
    [9, 0],
  ].map(([level, index]) => {
    const sql = `INSERT INTO tiles (tenant_id, level, tile_index, hashes) SELECT tenant_id, ${level}, ${index}, root FROM log_heads`;
    return ["tiles", `tile ${index} of level ${level}`, sql] as const;
  }),
];

test.each(stores)("on %s ledger verify names every row without a log", async (kind, makeFixture) => {
  const { clock, random, makeRecord } = recordKit();
  const fixture = await makeFixture();
  const store = "url" in fixture ? fixture.url : `sqlite:${fixture.path}`;
  settingsForTest({ SVC_STORE: store, SVC_LEDGER_KEY: fixture.keyPath });
  const verify = (...options: readonly string[]) => run("ledger", "verify", ...options);
  const ledger = await fixture.open({ clock, random });
  await ledger.append(makeRecord(tenant("alice")));
  await ledger.close();
  await fixture.settle();
  expect(await verify()).toMatchObject({ code: 0, err: "" });
  const longer = "hashes || substr(hashes, 1, 32)";
  await fixture.query(`UPDATE tiles SET hashes = ${"url" in fixture ? longer : `CAST(${longer} AS BLOB)`}`);
  expect(await verify()).toMatchObject({ code: 1, err: expect.stringContaining("tile 0 of level 0 is too long") });
  await fixture.query("UPDATE tiles SET hashes = substr(hashes, 1, 64)");
  const lines: string[] = [];
  for (const [table, name, sql] of strays) {
    await fixture.query(sql);
    lines.push(
      `tenant ${sql.includes("nobody") ? "nobody" : "alice"}: ${table} has ${name}, which the log does not have`,
    );
    const { code, err } = await verify();
    expect(code).toBe(1);
    expect(err.split("\n"), `${kind}, ${table}`).toEqual(expect.arrayContaining(lines));
  }
  const { out, err } = await verify("--tenant", "alice", "--json");
  expect(err).toBe("");
  expect(JSON.parse(out).stray_rows.sort()).toEqual(lines.filter((line) => !line.includes("nobody")).sort());
  expect(JSON.parse(out).problems).toContainEqual(expect.stringContaining("leaf 2 is behind the head, which has 2"));
});
