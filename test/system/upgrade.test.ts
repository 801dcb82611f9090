/** The version before and this one on one store, rolled forward and back under load. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startStaticIssuer } from "../harness/issuer.ts";
import { checkOutPrevious } from "../harness/previous-version.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";
import { startRetryingLoad } from "../harness/retrying-load.ts";
import { testStores } from "../harness/stores.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";
import { registeredOnBoth } from "./registered-on-both.ts";

const tenants = ["tenant-a", "tenant-b", "tenant-c"];
const versions = { previous: "", current: join(import.meta.dirname, "../..") };
type Version = keyof typeof versions;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-previous-"));
  versions.previous = checkOutPrevious(join(folder, "checkout"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(testStores)(
  "on %s no caller that tries again sees it, and the logs verify",
  { timeout: 240_000 },
  async (_name, startStore) => {
    const store = await startStore();
    const key = newTestKey("ES256", "key-1");
    const issuer = await startStaticIssuer([key.publicJwk]);
    const replicas: (RunningService | undefined)[] = [undefined, undefined];
    const urls: (string | undefined)[] = [undefined, undefined];
    const settings = {
      ...serviceSettings(store.folder, issuer.url),
      ...store.settings,
      // With the copy of the schema that the version before published.
      SVC_POLICY_DIR: join(versions.previous, "policies"),
    };
    const run = async (version: Version, ...given: string[]) => {
      const cli = join(versions[version], "src/cli/cli.ts");
      const env = { PATH: process.env.PATH ?? "", ...settings };
      return (await promisify(execFile)(process.execPath, [cli, ...given], { env })).stdout;
    };
    const start = async (replica: number, version: Version) => {
      const service = await startService(store.folder, settings, join(versions[version], "src/main.js"));
      replicas[replica] = service;
      urls[replica] = service.url;
    };
    const stop = async (replica: number) => {
      urls[replica] = undefined;
      replicas[replica]?.child.kill("SIGTERM");
      expect(await replicas[replica]?.ended).toEqual({ code: 0, signal: null });
    };
    try {
      await run("previous", "migrate");
      await start(0, "previous");
      await start(1, "previous");
      const scope = "platform-api.access evidence.write";
      const tokens = tenants.map((tenant_id) => mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id, scope })));
      const load = startRetryingLoad({ urls, tokens, patienceMs: 30_000 });
      const uses = "platform-api.access policy.read artifacts.write";
      const facts = registeredOnBoth(urls, (scopes) =>
        mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id: "tenant-c", scope: `${uses} ${scopes}`.trim() })),
      );
      const answersOf = (replica: number) => load.acknowledged.filter((each) => each.replica === replica).length;
      const serving = async () => {
        const before = [answersOf(0), answersOf(1)] as const;
        const hasServed = () => answersOf(0) > before[0] + 10 && answersOf(1) > before[1] + 10;
        await expect.poll(hasServed, { timeout: 30_000 }).toBe(true);
      };
      try {
        await serving();
        await facts.check();
        await run("current", "migrate");
        for (const [replica, version] of [
          ...([0, 1] as const).map((each) => [each, "current"] as const),
          ...([1, 0] as const).map((each) => [each, "previous"] as const),
        ]) {
          await stop(replica);
          await start(replica, version);
          await serving();
          await facts.check();
        }
      } finally {
        await load.stop();
      }
      expect(load.problems).toEqual([]);
      await Promise.all([stop(0), stop(1)]);
      // Each call once, and the first leaf of each log.
      const leaves = load.acknowledged.length + facts.records + tenants.length;
      for (const version of ["previous", "current"] as const) {
        const { logs } = JSON.parse(await run(version, "ledger", "verify", "--json"));
        expect(logs.reduce((sum: number, { leaves: own }: { leaves: number }) => sum + own, 0)).toBe(leaves);
      }
    } finally {
      for (const service of replicas) service?.child.kill("SIGKILL");
      await Promise.all(replicas.map((service) => service?.ended));
      await issuer.stop();
      await store.stop();
    }
  },
);
