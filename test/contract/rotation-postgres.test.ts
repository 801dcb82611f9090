import { Client } from "pg";
import { expect, test, vi } from "vitest";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile, replaceKeyFile } from "../../src/stores/files/key-file.ts";
import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { run } from "../unit/cli/surroundings.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { rotationSuite } from "./rotation-suite.ts";

const server = postgresOfFile();

rotationSuite("PostgreSQL", () => postgresFixture(server));

test("an interrupted rotation is completed, with every step, once for each log", async () => {
  const fixture = await postgresFixture(server);
  const { clock, random, makeRecord } = recordKit();
  const kindsOf = async (name: string) => (await fixture.rows(name)).map(({ leaf }) => JSON.parse(leaf).kind);
  try {
    const ledger = await fixture.open({ clock, random });
    for (const name of ["alice", "bob"]) await ledger.append(makeRecord(tenant(name)));
    await ledger.close();
    for (let rotations = 0; rotations < 2; rotations++) {
      const [key] = readKeyFile(fixture.keyPath) ?? [];
      if (key === undefined) throw new Error("no key");
      replaceKeyFile(fixture.keyPath, [signingKeyOf(random(new Uint8Array(32))), key]);
      await (await fixture.open({ clock, random })).close();
    }
    // As though the second start had ended after it had noted the key, and a log had missed both.
    await fixture.query("UPDATE log_heads SET key_position = 1 WHERE tenant_id = 'alice'");
    await fixture.query("UPDATE log_heads SET key_position = 0 WHERE tenant_id = 'bob'");
    await (await fixture.open({ clock, random })).close();
    await (await fixture.open({ clock, random })).close();
    const rotated = ["genesis", "decision", "key_rotation", "key_rotation"];
    expect(await kindsOf("alice")).toEqual([...rotated, "key_rotation"]);
    expect(await kindsOf("bob")).toEqual([...rotated, "key_rotation", "key_rotation"]);
    expect(await fixture.query("SELECT DISTINCT key_position FROM log_heads")).toEqual([{ key_position: 2 }]);
  } finally {
    await fixture.remove();
  }
});

test.each(["ends a segment of the search index", "rebuilds the index"])(
  "an append that first records the next key is refused if that %s",
  async (what) => {
    const fixture = await postgresFixture(server);
    const { clock, random, makeRecord } = recordKit(what);
    const alice = tenant("alice");
    const ledger = await fixture.open({ clock, random });
    try {
      let { leafIndex } = await ledger.append(makeRecord(alice));
      if (what.startsWith("rebuilds")) await fixture.settle();
      else {
        const [key] = await fixture.query("SELECT get_byte(key, 0) AS offset FROM search_keys");
        while ((leafIndex + 2) % 64 !== Number(key?.offset) % 64)
          leafIndex = (await ledger.append(makeRecord(alice))).leafIndex;
      }
      // Another replica has noted its key, and has not come to this log.
      const [key] = readKeyFile(fixture.keyPath) ?? [];
      if (key === undefined) throw new Error("no key");
      const next = signingKeyOf(random(new Uint8Array(32)));
      replaceKeyFile(fixture.keyPath, [next, key]);
      const hex = Buffer.from(next.publicKey).toString("hex");
      await fixture.query(`INSERT INTO signing_keys (position, public_key) VALUES (1, '\\x${hex}')`);
      await ledger.check();
      expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: leafIndex + 2 });
      expect(await fixture.problems(clock.now())).toEqual([]);
    } finally {
      await ledger.close();
      await fixture.remove();
    }
  },
);

test("a rotation during an append's wait for the head is seen under its lock", async () => {
  const fixture = await postgresFixture(server);
  const { clock, random, makeRecord } = recordKit();
  const alice = tenant("alice");
  const ledger = await fixture.open({ clock, random, timeoutMs: 30_000 });
  try {
    await ledger.append(makeRecord(alice));
    const head = await holdHead(fixture, "alice");
    const appending = ledger.append(makeRecord(alice)).catch((error: unknown) => error);
    const waiting = `SELECT FROM pg_stat_activity
                      WHERE datname = current_database()
                        AND wait_event_type = 'Lock' AND query LIKE '%FROM log_heads WHERE tenant_id = $1 FOR UPDATE'`;
    await expect.poll(() => fixture.query(waiting), { timeout: 10_000 }).toHaveLength(1);
    // Another gateway hands the log over to a key that this one's file does not have.
    const { publicKey } = signingKeyOf(random(new Uint8Array(32)));
    await head.query("INSERT INTO signing_keys (position, public_key) VALUES (1, $1)", [publicKey]);
    await head.query("UPDATE log_heads SET key_position = 1 WHERE tenant_id = 'alice'");
    await head.query("COMMIT");
    expect(await appending).toMatchObject({ reason: "store_unavailable", message: /key was rotated/ });
    expect(await fixture.rows("alice")).toHaveLength(2);
    await head.end();
  } finally {
    await ledger.close();
    await fixture.remove();
  }
});

test("ledger verify accepts a second rotation that a log lacks, and no unknown key", async () => {
  for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  const fixture = await postgresFixture(server);
  vi.stubEnv("SVC_STORE", fixture.url);
  vi.stubEnv("SVC_LEDGER_KEY", fixture.keyPath);
  const { clock, random, makeRecord } = recordKit();
  const verify = () => run("ledger", "verify");
  /** Puts a new key before the one that signs, as `keys rotate` does. */
  const rotate = () => {
    const [key] = readKeyFile(fixture.keyPath) ?? [];
    if (key === undefined) throw new Error("no key");
    replaceKeyFile(fixture.keyPath, [signingKeyOf(random(new Uint8Array(32))), key]);
  };
  try {
    const first = await fixture.open({ clock, random });
    for (const name of ["alice", "bob"]) await first.append(makeRecord(tenant(name)));
    await first.close();
    rotate();
    await (await fixture.open({ clock, random })).close();
    rotate();
    // A starting gateway notes the key, hands over the first log, and waits for the other, which another session holds.
    const head = await holdHead(fixture, "bob");
    const starting = fixture.open({ clock, random, timeoutMs: 30_000 });
    await expect
      .poll(() => fixture.query("SELECT tenant_id, key_position FROM log_heads ORDER BY tenant_id"))
      .toEqual([
        { tenant_id: "alice", key_position: 2 },
        { tenant_id: "bob", key_position: 1 },
      ]);
    const during = await verify();
    await head.end();
    await (await starting).close();
    expect(during).toMatchObject({ code: 0, err: "" });
    expect(await verify()).toMatchObject({ code: 0, err: "" });
    await fixture.query("UPDATE log_heads SET key_position = 1 WHERE tenant_id = 'bob'");
    expect(await verify()).toMatchObject({ code: 1, err: expect.stringContaining("is not the next one of the store") });
  } finally {
    vi.unstubAllEnvs();
    await fixture.remove();
  }
});

/** Locks a log's head, in a transaction that lasts as long as the connection. */
async function holdHead({ url }: { readonly url: string }, tenantId: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN");
  await client.query("SELECT FROM log_heads WHERE tenant_id = $1 FOR UPDATE", [tenantId]);
  return client;
}
