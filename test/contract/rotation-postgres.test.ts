import { afterAll, beforeAll, expect, test } from "vitest";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile, replaceKeyFile } from "../../src/stores/key-file.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresPlace } from "./ledger-postgres-place.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { rotationSuite } from "./rotation-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

rotationSuite("PostgreSQL", () => postgresPlace(server));

test("a rotation that was broken off is finished, with every step, once a log", async () => {
  const place = await postgresPlace(server);
  const [clock, random] = [manualClock(), seededRandom()];
  const makeRecord = recordMaker(clock, random);
  const kindsOf = async (name: string) => (await place.rows(name)).map(({ leaf }) => JSON.parse(leaf).kind);
  try {
    const ledger = await place.open({ clock, random });
    for (const name of ["alice", "bob"]) await ledger.append(makeRecord(tenant(name)));
    await ledger.close();
    for (let rotations = 0; rotations < 2; rotations++) {
      const [key] = readKeyFile(place.keyPath) ?? [];
      if (key === undefined) throw new Error("no key");
      replaceKeyFile(place.keyPath, [signingKeyOf(random(new Uint8Array(32))), key]);
      await (await place.open({ clock, random })).close();
    }
    // As though the second start had ended after it had noted the key, and a log had missed both.
    await place.query("UPDATE log_heads SET key_position = 1 WHERE tenant_id = 'alice'");
    await place.query("UPDATE log_heads SET key_position = 0 WHERE tenant_id = 'bob'");
    await (await place.open({ clock, random })).close();
    await (await place.open({ clock, random })).close();
    const rotated = ["genesis", "decision", "key_rotation", "key_rotation"];
    expect(await kindsOf("alice")).toEqual([...rotated, "key_rotation"]);
    expect(await kindsOf("bob")).toEqual([...rotated, "key_rotation", "key_rotation"]);
    expect(await place.query("SELECT DISTINCT key_position FROM log_heads")).toEqual([{ key_position: 2 }]);
  } finally {
    await place.remove();
  }
});
