import { expect, test } from "vitest";
import { compactStore } from "../../src/stores/sql/compact.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { manualClock, seededRandom, tenant } from "./ledger-records.ts";
import { describeShared } from "./shared-suite.ts";

const server = await forFile(sharedPostgres());

describeShared("PostgreSQL", () => postgresFixture(server));

test("unexpired rows stay if a replica whose clock is ahead removes expired ones", async () => {
  const fixture = await postgresFixture(server);
  const nowMs = Date.now();
  const { shared } = await fixture.openStores({ clock: manualClock(nowMs), random: seededRandom() });
  const tenantId = tenant("alice");
  await shared.firstUse({ tenantId, proof: "n".repeat(43) }, nowMs + 90_000);
  await fixture.query(
    `INSERT INTO proof_uses (tenant_id, proof, expires_at_ms) VALUES ('alice', 'o', ${nowMs - 90_000})`,
  );
  await shared.takePortion({ tenantId, counter: "quota", maximum: 10, windowMs: 60_000 }, 10);
  const options = { nowMs: nowMs + 172_800_000, rewrite: false, pause: async () => {}, onProgress: () => {} };
  await using database = await fixture.database();
  const { removed } = await compactStore(database, options);
  expect(removed).toEqual({ kept_answers: 0, proof_uses: 1, attempts: 0 });
  expect(await shared.firstUse({ tenantId, proof: "n".repeat(43) }, nowMs + 90_000)).toBe(false);
});
