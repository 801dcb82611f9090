import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { encodeRecord } from "../../src/ledger/append/record-text.ts";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import type { PostgresConnection } from "../../src/stores/postgres/connection/connection.ts";
import { ConnectionPool } from "../../src/stores/postgres/connection/pool.ts";
import { LogWriter } from "../../src/stores/postgres/log-writer.ts";
import { SigningKeysOfStore } from "../../src/stores/sql/key-ring.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { run, settingsForTest } from "../unit/cli/surroundings.ts";
import { type PostgresFixture, postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { rotationSuite } from "./rotation-suite.ts";

const server = await forFile(sharedPostgres());

rotationSuite("PostgreSQL", () => postgresFixture(server));

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
let fixture: PostgresFixture;

const open = (changes: Partial<Parameters<PostgresFixture["open"]>[0]> = {}) =>
  fixture.open({ clock, random, ...changes });

describe("replicas on one database", () => {
  beforeEach(async () => {
    fixture = await postgresFixture(server);
  });

  test("an interrupted rotation is completed, with every step, once for each log", async () => {
    const kindsOf = async (name: string) => (await fixture.rows(name)).map(({ leaf }) => JSON.parse(leaf).kind);
    const ledger = await open();
    for (const name of ["alice", "bob"]) await ledger.append(makeRecord(tenant(name)));
    await ledger.close();
    for (let rotations = 0; rotations < 2; rotations++) {
      fixture.rotateKey(random);
      await (await open()).close();
    }
    // As though the second start had ended after it had noted the key, and a log had missed both.
    await fixture.query("UPDATE log_heads SET key_position = 1 WHERE tenant_id = 'alice'");
    await fixture.query("UPDATE log_heads SET key_position = 0 WHERE tenant_id = 'bob'");
    for (let starts = 0; starts < 2; starts++) await (await open()).close();
    const rotated = ["genesis", "decision", "key_rotation", "key_rotation"];
    expect(await kindsOf("alice")).toEqual([...rotated, "key_rotation"]);
    expect(await kindsOf("bob")).toEqual([...rotated, "key_rotation", "key_rotation"]);
    expect(await fixture.query("SELECT DISTINCT key_position FROM log_heads")).toEqual([{ key_position: 2 }]);
  });

  test.each(["ends a segment of the search index", "rebuilds the index"])(
    "an append that first records the next key is answered, although it %s",
    async (what) => {
      const ledger = await open();
      let { leafIndex } = await ledger.append(makeRecord(alice));
      if (what.startsWith("rebuilds")) await fixture.settle();
      else {
        const [key] = await fixture.query("SELECT get_byte(key, 0) AS offset FROM search_keys");
        while ((leafIndex + 2) % 64 !== Number(key?.offset) % 64)
          leafIndex = (await ledger.append(makeRecord(alice))).leafIndex;
      }
      // Another replica has noted its key, and has not come to this log.
      const hex = Buffer.from(fixture.rotateKey(random)).toString("hex");
      await fixture.query(`INSERT INTO signing_keys (position, public_key) VALUES (1, '\\x${hex}')`);
      await ledger.check();
      expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: leafIndex + 2 });
      expect(await fixture.problems(clock.now())).toEqual([]);
    },
  );

  test("a rotation during an append's wait for the head is seen under its lock", async () => {
    const ledger = await open({ timeoutMs: 30_000 });
    await ledger.append(makeRecord(alice));
    const head = await fixture.holdHeads("alice");
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
  });

  describe("a rotation that a replica follows in the middle of its append to", () => {
    test.each([
      ["a log that begins", "INSERT INTO log_heads", []],
      ["a log whose tiles it has to read", "JOIN tiles", ["genesis", "decision"]],
    ])("%s brings the log to no key that its leaves do not name", async (_what, moment, before) => {
      const first = await open();
      if (before.length > 0) await first.append(makeRecord(alice));
      await first.close();
      const next = random(new Uint8Array(32));
      let current = readKeyFile(fixture.keyPath)?.[0].publicKey as Uint8Array;
      const keys = new SigningKeysOfStore({
        get current() {
          return current;
        },
        statementOf: () => undefined,
        follow(newest) {
          current = newest;
        },
      });
      let rotations = 0;
      /** Another replica notes its key before the statement, and work for another tenant follows it. */
      const rotateBefore = async (statement: string) => {
        if (!statement.includes(moment) || rotations++ > 0) return;
        const hex = Buffer.from(next).toString("hex");
        await fixture.query(`INSERT INTO signing_keys (position, public_key) VALUES (1, '\\x${hex}')`);
        await keys.follow({ query: async (text) => ({ rows: await fixture.query(text), count: 0 }) });
      };
      class RotatedPool extends ConnectionPool {
        override async write(statement: string, values: readonly unknown[]) {
          await rotateBefore(statement);
          return super.write(statement, values);
        }
        override transaction<Result>(
          work: (connection: PostgresConnection) => Promise<Result>,
          lockTimeoutMs?: number,
        ) {
          return super.transaction((connection) => {
            const query: PostgresConnection["query"] = async (statement, values) => {
              await rotateBefore(statement);
              return connection.query(statement, values);
            };
            const [insert, each] = [connection.insert.bind(connection), connection.each.bind(connection)];
            return work({ query, insert, each } as PostgresConnection);
          }, lockTimeoutMs);
        }
      }
      const { target } = fixture;
      const pool = new RotatedPool({ target, poolSize: 4, timeoutMs: 10_000 });
      onTestFinished(() => pool.close());
      await keys.follow(pool);
      const options = { pool, anchor: undefined, originPrefix: "ledger.example/logs", clock, random, keys };
      const writer = new LogWriter(options);
      const append = async () => {
        const [outcome] = await writer.write([{ tenantId: alice, records: [encodeRecord(makeRecord(alice))] }]);
        return outcome !== undefined && "later" in outcome ? outcome.later : outcome;
      };
      expect(await append()).toHaveProperty("results.length", 1);
      expect(rotations).toBe(1);
      expect(await fixture.query("SELECT key_position FROM log_heads")).toEqual([{ key_position: 0 }]);
      expect(await append()).toHaveProperty("results.length", 1);
      const kinds = (await fixture.rows("alice")).map(({ leaf }) => JSON.parse(leaf).kind);
      const begun = before.length > 0 ? before : ["genesis"];
      expect(kinds).toEqual([...begun, "decision", "key_rotation", "decision"]);
    });
  });

  test("ledger verify accepts a second rotation that a log lacks, and no unknown key", async () => {
    settingsForTest({ SVC_STORE: fixture.url, SVC_LEDGER_KEY: fixture.keyPath });
    const verify = () => run("ledger", "verify");
    const first = await open();
    for (const name of ["alice", "bob"]) await first.append(makeRecord(tenant(name)));
    await first.close();
    fixture.rotateKey(random);
    await (await open()).close();
    fixture.rotateKey(random);
    // A starting gateway notes the key, hands over the first log, and waits for the other, which another session holds.
    const head = await fixture.holdHeads("bob");
    const starting = open({ timeoutMs: 30_000 });
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
  });
});
