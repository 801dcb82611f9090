/** grpcurl, and with it grpc-go: the schema by reflection, and deadlines that are no whole milliseconds. */
import { type ExecFileException, execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";

const version = "v1.9.4";
/** In seconds: what is left of it when a call leaves is never whole milliseconds. */
const maxTime = ["-max-time", "29.987336"];

let tools: string;
let gateway: Gateway;
let token: string;

beforeAll(async () => {
  tools = mkdtempSync(join(tmpdir(), "grpcurl-"));
  const env = { ...process.env, GOBIN: tools };
  await promisify(execFile)("go", ["install", `github.com/fullstorydev/grpcurl/cmd/grpcurl@${version}`], { env });
  gateway = await startGateway();
  token = await gateway.token();
}, 600_000);
afterAll(async () => {
  await gateway?.stop();
  rmSync(tools, { recursive: true });
});

async function grpcurl(options: readonly string[], ...words: readonly string[]) {
  const { host } = new URL(gateway.url);
  const args = ["-plaintext", ...options, host, ...words];
  return promisify(execFile)(join(tools, "grpcurl"), args).then(
    ({ stdout }) => ({ code: 0, out: stdout, err: "" }),
    (error: ExecFileException) => ({ code: error.code, out: String(error.stdout), err: String(error.stderr) }),
  );
}

test("lists and describes what there is", async () => {
  const { code, out } = await grpcurl(maxTime, "list");
  expect(code).toBe(0);
  expect(out.trim().split("\n")).toContain("platform.sdk.v1.ProtectionService");
  expect((await grpcurl(maxTime, "describe", "platform.sdk.v1.ProtectionService")).out).toContain("rpc PlanProtection");
});

test("calls what reflection has told it of", async () => {
  const bearer = ["-H", `authorization: Bearer ${token}`];
  const { code, out } = await grpcurl([...maxTime, ...bearer], "platform.sdk.v1.DiscoveryService/WhoAmI");
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ caller: { tenantId: "tenant-a" } });
  expect(JSON.parse((await grpcurl(maxTime, "grpc.health.v1.Health/Check")).out)).toHaveProperty("status");
});

test("a watch ends with its deadline, and says what it saw before", async () => {
  const { code, out, err } = await grpcurl(["-max-time", "2.000123"], "grpc.health.v1.Health/Watch");
  expect(code).not.toBe(0);
  expect(out).toContain("SERVING");
  expect(err).toContain("DeadlineExceeded");
});
