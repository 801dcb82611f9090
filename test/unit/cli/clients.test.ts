import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { isSecret } from "../../../src/credentials/client-secret.ts";
import { parseClientFile } from "../../../src/credentials/session-clients.ts";
import { directory, eachInDirectory, erasing, refused, run as runCommand } from "./surroundings.ts";

let path: string;

eachInDirectory();
beforeEach(() => {
  path = join(directory, "secrets", "clients.json");
  vi.stubEnv("SVC_SESSION_CLIENTS", path);
});

const run = (...commandLine: string[]) => runCommand("clients", ...commandLine);

const who = (client: string, tenant = "tenant-a") => ["--tenant", tenant, "--client", client];
const add = (client: string, tenant?: string) => run("add", ...who(client, tenant), "--scopes", "a b a");
const lastLine = (text: string) => text.trimEnd().split("\n").at(-1) ?? "";
const hashOf = (client: string) => {
  const found = parseClientFile(readFileSync(path, "utf8")).find(({ clientId }) => clientId === client);
  if (found === undefined) throw new Error(`no client ${client}`);
  return found.secret;
};

test("add prints the secret once, as its last line, and keeps a hash of it in a private file", async () => {
  const { out, err, code } = await add("payroll");
  expect({ err, code }).toEqual({ err: "", code: 0 });
  const secret = lastLine(out);
  expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readFileSync(path, "utf8")).not.toContain(secret);
  expect(await isSecret(secret, hashOf("payroll"))).toBe(true);
  const listed = await run("list");
  expect(listed.out).toBe("tenant-a\tpayroll\ta b\n");
  expect((await run("list", "--json")).out).not.toContain("argon2");
});

test("attributes are kept, even with a new secret, and shown", async () => {
  const attributes = { clearance: 3, on_call: true, roles: ["doctor", "nurse"], ward: "7" };
  const given = JSON.stringify({ ...attributes, roles: ["nurse", "doctor"] });
  const { err, code } = await run("add", ...who("payroll"), "--scopes", "a", "--attributes", given);
  expect({ err, code }).toEqual({ err: "", code: 0 });
  await run("rotate", ...who("payroll"), ...erasing);
  const [client] = JSON.parse((await run("list", "--json")).out).clients;
  expect(client.attributes).toEqual(attributes);
  expect(parseClientFile(readFileSync(path, "utf8"))[0]?.attributes).toEqual(attributes);
});

test.each([
  ["no JSON", "{", "must be a JSON object"],
  ["not an object", "[1]", "is not an object"],
  ["named twice", '{"ward":"7","ward":"8"}', "must name each member once"],
  ["a value of no type", '{"a":1.5}', "a must be"],
  [
    "too long",
    JSON.stringify({ a: "x".repeat(1_000), b: Array(9).fill("y".repeat(400)) }),
    "is longer than 4096 bytes",
  ],
])("attributes that are %s are refused", async (_name, given, problem) => {
  const added = run("add", ...who("payroll"), "--scopes", "a", "--attributes", given);
  await refused(added, RegExp(`--attributes: [^]*${problem}`));
});

test("a client whose token would be longer than the service takes is refused, and the file stays", async () => {
  await add("payroll");
  const before = readFileSync(path, "utf8");
  const scopes = Array.from({ length: 900 }, (_, i) => `s-${i}`).join(" ");
  await refused(run("add", ...who("hr"), "--scopes", scopes), "clients[1] is too long for a token");
  expect(readFileSync(path, "utf8")).toBe(before);
});

test("a client that the service refuses can be removed, so that it takes the others", async () => {
  await add("payroll");
  await add("hr");
  const long = "x".repeat(257);
  writeFileSync(path, readFileSync(path, "utf8").replace('"hr"', JSON.stringify(long)));
  expect((await run("list")).err).toContain("clients[1].client_id");
  expect((await run("remove", ...who(long), ...erasing)).code).toBe(0);
  expect((await run("list")).out).toBe("tenant-a\tpayroll\ta b\n");
});

test("two tenants may use one name; one tenant may not use it twice", async () => {
  await add("payroll");
  const before = readFileSync(path, "utf8");
  expect(await add("payroll")).toMatchObject({ code: 1, out: "", err: expect.stringContaining("has it already") });
  expect(readFileSync(path, "utf8")).toBe(before);
  expect((await add("payroll", "tenant-b")).code).toBe(0);
  expect((await run("list", "--tenant", "tenant-b")).out).toBe("tenant-b\tpayroll\ta b\n");
  expect((await run("remove", ...who("payroll", "tenant-b"), ...erasing)).code).toBe(0);
  expect((await run("list")).out).toBe("tenant-a\tpayroll\ta b\n");
});

test("rotate makes the old secret useless", async () => {
  const old = lastLine((await add("payroll")).out);
  const { out } = await run("rotate", ...who("payroll"), ...erasing, "--json");
  const { client_secret: secret, ...answer } = JSON.parse(out);
  expect(answer).toEqual({ ok: true, tenant_id: "tenant-a", client_id: "payroll" });
  expect(await isSecret(secret, hashOf("payroll"))).toBe(true);
  expect(await isSecret(old, hashOf("payroll"))).toBe(false);
  expect((await run("list")).out).toBe("tenant-a\tpayroll\ta b\n");
});

test.each([
  [["rotate", ...who("nobody")], "has no such client"],
  [["remove", ...who("nobody")], "has no such client"],
  [["add", "--tenant", "../a", "--client", "a", "--scopes", "a"], "--tenant: must be"],
  [["add", ...who("a b"), "--scopes", "a"], "--client: must be"],
  [["add", ...who("a"), "--scopes", 'a "b"'], "--scopes: must be"],
  [["add", ...who("a"), "--scopes", " "], "--scopes: must be"],
  [["add", "--tenant", "a"], "--client"],
])("%j is refused, and nothing is written", async (commandLine, problem) => {
  await refused(run(...commandLine), problem);
  expect(() => statSync(path)).toThrow("ENOENT");
});

test("a file that is no clients file stays unchanged", async () => {
  await add("payroll");
  const broken = '{"clients": [{"secret": "top-secret"}]}';
  writeFileSync(path, broken);
  for (const commandLine of [["add", ...who("b"), "--scopes", "a"], ["list"]]) {
    const { err, code } = await run(...commandLine);
    expect(code).toBe(1);
    expect(err).toContain("SVC_SESSION_CLIENTS: clients[0] must have tenant_id");
    expect(err).not.toContain("top-secret");
  }
  expect(readFileSync(path, "utf8")).toBe(broken);
});

test("while another process changes the file, a change is refused", async () => {
  await add("payroll");
  writeFileSync(`${path}.next`, "");
  expect((await run("rotate", ...who("payroll"), ...erasing)).err).toContain("another process is changing the file");
});

test("without the setting there is nothing to change", async () => {
  vi.stubEnv("SVC_SESSION_CLIENTS", undefined);
  await refused(add("payroll"), "SVC_SESSION_CLIENTS: is required\n");
});
