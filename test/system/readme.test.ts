/** The calls of the README, pasted. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { requireTool } from "./tools.ts";

const root = join(import.meta.dirname, "../..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const calls = [...readme.matchAll(/^```sh\n(BASE=.*?)^```/gms)].map(([, text = ""]) => text);

let gateway: Gateway;

beforeAll(async () => {
  requireTool("curl");
  gateway = await startGateway();
});
afterAll(() => gateway.stop());

async function paste(text: string): Promise<string> {
  // Buf keeps what it compiled where the user's cache is.
  const env = { ...process.env, BASE: gateway.url, TOKEN: await gateway.token(), XDG_CACHE_HOME: gateway.dataDir };
  return (await promisify(execFile)("sh", ["-euc", text], { cwd: root, env })).stdout;
}

test("curl", async () => {
  expect(calls).toHaveLength(1);
  const [whoami, plan] = (await paste(calls[0] as string))
    .split(/(?<=\})(?=\{"service")/)
    .map((text) => JSON.parse(text));
  expect(whoami).toMatchObject({ status: "ok", caller: { tenant_id: "tenant-a" } });
  expect(plan).toMatchObject({ status: "ready", decision: { allow: true } });
});
