/** The command line of local enforcement, against a real service: what it does, and what its exit codes say. */
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { runCommandLine } from "../../clients/typescript/src/enforce/cli-program.ts";
import { startIssuer } from "../../dev/issuer.ts";
import { startEnforcementStack } from "../harness/enforcement.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";

const folder = folderForFile("enforce-cli");
const at = (name: string) => join(folder, name);
const root = join(import.meta.dirname, "../..");
const plaintext = Buffer.from("what no other program reads\n".repeat(1000));

const stack = await forFile(startEnforcementStack());
const logKey = await stack.logKey();
writeFileSync(at("plain"), plaintext);

interface Ran {
  readonly code: number;
  readonly out: Buffer;
  readonly err: string;
}

async function run(
  line: string,
  options: { readonly stdin?: Buffer; readonly env?: object; readonly isWatched?: boolean } = {},
): Promise<Ran> {
  const { issuer, url } = stack.stack;
  const [client] = issuer.clients;
  const stdout = new PassThrough();
  const out = buffer(stdout);
  let err = "";
  const code = await runCommandLine(
    line.split(" ").map((word) => word.replace("@", folder)),
    {
      environment: {
        PLATFORM_URL: url,
        PLATFORM_ISSUER: issuer.url,
        PLATFORM_CLIENT_ID: client?.clientId,
        PLATFORM_CLIENT_SECRET: client?.clientSecret,
        PLATFORM_SCOPE: client?.scopes.join(" "),
        PLATFORM_LOG_KEY: logKey,
        PLATFORM_KEY_FILE: at("one.key"),
        PLATFORM_SPOOL: at("spool"),
        ...options.env,
      },
      stdin: Readable.from(options.stdin === undefined ? [] : [options.stdin]),
      stdout,
      stderr: {
        write(text: string) {
          err += text;
        },
      },
      isWatched: options.isWatched ?? false,
      homeDirectory: folder,
    },
  );
  stdout.end();
  return { code, out: await out, err };
}

test("a file is protected, opened, rewrapped and verified", async () => {
  expect((await run("new-key @/one.key --reference local-one")).code).toBe(0);
  expect((await run("new-key @/two.key --reference local-two")).code).toBe(0);
  const sealed = await run("protect @/plain @/sealed --resource-kind customer-record --resource-id c1 --json");
  expect(sealed).toMatchObject({ code: 0, err: "" });
  const made = JSON.parse(sealed.out.toString());
  expect(made).toMatchObject({ evidence: "recorded", isKeyCommitted: true });
  const opened = await run("open @/sealed @/opened --resource-kind customer-record");
  expect(opened).toMatchObject({ code: 0, err: "" });
  expect(opened.out.toString()).toContain(`${at("opened")}: opened from ${at("sealed")}, ${made.artifactDigest}, `);
  expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
  expect((await run("rewrap @/sealed @/rewrapped --new-key-file @/two.key")).code).toBe(0);
  expect((await run("open @/rewrapped @/again --key-file @/two.key")).code).toBe(0);
  expect(readFileSync(at("again")).equals(plaintext)).toBe(true);
  for (const name of ["sealed", "rewrapped", "opened --opened"]) expect((await run(`verify @/${name}`)).code).toBe(0);
  // The receipts do not say which of them is to be verified.
  for (const name of ["opened", "sealed --opened"]) expect((await run(`verify @/${name}`)).code).toBe(4);
  expect((await run("flush")).out.toString()).toBe("0 sent, 0 waiting\n");
});

test("a file is signed, opened, signed again and verified", async () => {
  for (const name of ["signer", "partner"])
    expect((await run(`new-key @/${name}.key --profile detached_signature --reference local-${name}`)).code).toBe(0);
  expect((await run("public-key @/signer.key @/signer.pub")).code).toBe(0);
  expect((await run("public-key @/one.key @/one.pub")).code).toBe(1);
  const profile = "--profile detached_signature";
  const signed = await run(`protect @/plain @/plain.sig ${profile} --key-file @/signer.key --resource-kind release`);
  expect(signed).toMatchObject({ code: 0, err: "" });
  const checked = await run("open @/plain @/checked --signature @/plain.sig --key-file @/signer.pub");
  expect([checked.err, checked.out.toString()]).toEqual([
    "",
    expect.stringContaining(`from ${at("plain.sig")}, sha256:`),
  ]);
  expect(readFileSync(at("checked")).equals(plaintext)).toBe(true);
  expect((await run("open @/plain - --signature @/plain.sig --key-file @/signer.pub")).out.equals(plaintext)).toBe(
    true,
  );
  const anew = `rewrap @/plain.sig @/partner.sig ${profile} --key-file @/signer.pub --new-key-file @/partner.key`;
  expect((await run(anew)).code).toBe(0);
  expect((await run("verify @/plain.sig --data @/plain --key-file @/signer.pub")).code).toBe(0);
  expect((await run("verify @/partner.sig --data @/plain --key-file @/partner.key")).code).toBe(0);
  expect((await run("verify @/checked --opened")).code).toBe(0);
  expect((await run("verify @/plain.sig --data @/plain.sig")).code).toBe(4);
});

/** A part of a document's text as what is printed, in which ids and digests differ. */
const printed = (text: string) =>
  RegExp(
    text
      .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|(?<=sha256:)[\da-f]+…/g, "…")
      .replaceAll(/[.\\/()]/g, "\\$&")
      .replaceAll("…", "[\\w-]+"),
  );

test.each(["README.md", "docs/enforcement.md", "docs/how-to/exchange-tdf-files.md"])(
  "the commands of %s do what they show",
  async (page) => {
    const text = readFileSync(join(root, page), "utf8").replaceAll(/\\\n */g, "");
    const commands = [...text.matchAll(/^ *(?:\$ )?svc-platform (.*)\n(?=(?:(?!\$|```)(\w.*))?)/gm)];
    expect(commands.length).toBeGreaterThan(3);
    const own = at(page.replaceAll("/", "-"));
    mkdirSync(own);
    for (const name of ["report.pdf", "report.txt", "app.tar"]) writeFileSync(join(own, name), plaintext);
    for (const [, line = "", next = ""] of commands) {
      const shown = page === "README.md" ? next : "";
      if (line.includes("theirs.tdf")) copyFileSync(join(own, "report.tdf"), join(own, "theirs.tdf"));
      const here = line
        .replace(/'logs\.example\.com\/.*'/, logKey)
        .replaceAll(/(?<=^| )[\w.-]+\.(key|pub|pdf|txt|sealed|tar|sig|tdf)(?= |$)/g, `${own}/$&`);
      const ran = await run(here, { env: { PLATFORM_KEY_FILE: undefined } });
      expect(ran.code, `${line}: ${ran.err}`).toBe(shown.startsWith("svc-platform: ") ? 3 : 0);
      expect(`${ran.out}${ran.err}`.replaceAll(`${own}/`, ""), line).toMatch(printed(shown));
    }
  },
);

test("the library does what docs/enforcement.md shows", async () => {
  const own = mkdtempSync(at("library-"));
  for (const key of ["payroll.key", "partner.key --reference local-partner"]) await run(`new-key ${own}/${key}`);
  writeFileSync(join(own, "report.pdf"), plaintext);
  const page = readFileSync(join(root, "docs/enforcement.md"), "utf8");
  const [, sample = ""] = /^```ts\n(const enforcer .*?)^```/ms.exec(page) ?? [];
  const source = (name: string) => JSON.stringify(join(root, "clients/typescript/src", name));
  const program = `
import { clientCredentials, createPlatformClient, createRestTransport, workloadInterceptors } from ${source("index.ts")};
import { createHttpClient } from ${source("node.ts")};
import { createEnforcer, keyFile } from ${source("enforce/index.ts")};
const { baseUrl, issuer, client: { clientId, clientSecret, scopes }, logKeys } = JSON.parse(process.argv[2]);
const http = createHttpClient();
const interceptors = workloadInterceptors({ tokens: clientCredentials({ issuer, clientId, clientSecret, scopes, http }) });
const client = createPlatformClient(createRestTransport({ baseUrl, http, interceptors }));
const [workload, spoolDirectory] = [{ application: "payroll" }, "spool"];
${sample}`;
  writeFileSync(join(own, "main.mjs"), program);
  const { url: baseUrl, issuer } = stack.stack;
  const given = JSON.stringify({ baseUrl, issuer: issuer.url, client: issuer.clients[0], logKeys: [logKey] });
  await promisify(execFile)(process.execPath, ["main.mjs", given], { cwd: own });
  expect(readFileSync(join(own, "copy.pdf")).equals(plaintext)).toBe(true);
  expect((await run(`verify ${own}/report.partner.sealed`)).err).toBe("");
});

test("standard input and output are data alone", async () => {
  const sealed = await run("protect - - --resource-kind note", { stdin: plaintext });
  expect(sealed).toMatchObject({ code: 0, err: "" });
  expect((await run("open - -", { stdin: sealed.out })).out.equals(plaintext)).toBe(true);
});

test("progress is shown on a terminal only, and cleared at the end", async () => {
  const { err } = await run("protect @/plain @/watched --resource-kind note", { isWatched: true });
  expect(err).toContain("protecting: 0 MiB 100 %");
  expect(err.endsWith("\r\u001b[2K")).toBe(true);
});

test.each<[number, string, object?]>([
  [2, "protect @/plain"],
  [2, "frobnicate"],
  [2, "protect @/plain @/new --resource-kind x --unknown"],
  [2, "protect @/plain @/new"],
  [2, "protect @/plain @/new --resource-kind x --profile unknown"],
  [2, "open @/plain @/new --profile detached_signature"],
  [2, "verify @/sealed", { PLATFORM_LOG_KEY: "" }],
  [2, "verify @/sealed", { PLATFORM_LOG_KEY: "localhost/dev+00000000+AAAA" }],
  [2, "protect @/plain @/new --resource-kind x --log-key ledger.key"],
  [2, "flush", { PLATFORM_URL: "" }],
  [1, "protect @/missing @/new --resource-kind x"],
  [1, "protect @/plain @/sealed --resource-kind x"],
  [1, "protect @/plain @/new --resource-kind x --profile detached_signature"],
  [1, "verify @/sealed --data @/plain"],
  [4, "open @/one.key @/new --signature @/plain.sig --key-file @/signer.pub"],
  [4, "open @/plain @/new --signature @/plain --key-file @/signer.pub"],
  [1, "open @/plain @/new --key-file @/missing.key"],
  [3, "protect @/plain @/new --resource-kind x --label do-not-export"],
  [3, "open @/sealed @/new --environment production"],
  [4, "open @/plain @/new"],
  [5, "protect @/plain @/new --resource-kind x", { PLATFORM_URL: "http://127.0.0.1:9" }],
])("exit code %i: %s", async (code, line, env = {}) => {
  const ran = await run(line, { env });
  expect(ran.code, ran.err).toBe(code);
  expect(ran.err).toMatch(/^svc-platform: /);
  expect(existsSync(at("new"))).toBe(false);
});

test("a refusal of the service is shown with its reason", async () => {
  const [client] = stack.stack.issuer.clients;
  const other = await forTest(startIssuer({ clients: client === undefined ? [] : [client] }));
  const ran = await run("protect @/plain @/new --resource-kind x", { env: { PLATFORM_ISSUER: other.url } });
  expect(ran.code).toBe(5);
  expect(ran.err).toMatch(/^svc-platform: the platform refused the call, invalid_token: .+ \(request [\w-]+\)\n$/);
});

test("help is printed, and exits with 0", async () => {
  const { code, out } = await run("--help");
  expect(code).toBe(0);
  expect(out.toString()).toContain("exit codes:");
});

/** Verifies a copy of the file whose receipts have one more, of that name, and these members. */
function receiptNamed(name: string, of: string, members: object = {}): string {
  const { receipts, ...more } = JSON.parse(readFileSync(at(`${of}.receipts.json`), "utf8"));
  const named = { ...more, receipts: { ...receipts, [name]: receipts.plan }, ...members };
  writeFileSync(at("hostile.receipts.json"), JSON.stringify(named));
  copyFileSync(at(of), at("hostile"));
  return "verify @/hostile";
}

/** Ways for a stranger's text to what is printed: the command line with it, after files that hold it. */
const ways: readonly (readonly [string, (hostile: string) => string])[] = [
  ["a command", (hostile) => `${hostile} @/plain`],
  ["an option", (hostile) => `protect @/plain @/new --${hostile}`],
  ["the name of an input", (hostile) => `protect @/${hostile} @/new --resource-kind x`],
  ["the name of an output", (hostile) => `protect @/plain @/${hostile} --resource-kind x --replace`],
  ["the name of an output, as JSON", (hostile) => `protect @/plain @/${hostile} --resource-kind x --replace --json`],
  ["a folder", (hostile) => `protect @/plain @/${hostile}/new --resource-kind x`],
  ["a log's key", (hostile) => `verify @/sealed --log-key ${hostile}`],
  ["a new key's reference", (hostile) => `new-key @/hostile-new.key --reference ${hostile}`],
  [
    "a resource's kind, refused by the service",
    (hostile) => `protect @/plain @/new --resource-kind ${hostile.repeat(300)}`,
  ],
  [
    "a key file's reference",
    (hostile) => {
      const jwk = { kty: "oct", kid: hostile, k: Buffer.alloc(32).toString("base64url") };
      writeFileSync(at("hostile.key"), JSON.stringify(jwk), { mode: 0o600 });
      return "protect @/plain @/new --resource-kind x --key-file @/hostile.key";
    },
  ],
  [
    "a header's reference, and a resource of it",
    (hostile) => {
      const [binding, key] = [{ aead: "AES256_GCM_HKDF_1MB", decision_id: hostile, labels: [hostile] }, hostile];
      const block = { decision_id: key, provider: key, reference: key, wrapped: key };
      const header = { binding: { ...binding, policy_revision: "", resource: { kind: hostile } }, key: block };
      const bytes = Buffer.from(JSON.stringify(header));
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      writeFileSync(at("hostile"), Buffer.concat([Buffer.from("svc-platform-envelope/v1\n"), length, bytes]));
      return "open @/hostile @/new";
    },
  ],
  ["members of a receipts file", (hostile) => receiptNamed(hostile, "sealed", { artifact_digest: hostile })],
  ["the name of a receipt that holds", (hostile) => receiptNamed(hostile, "opened")],
];
const controls = [...Array(0xa0).keys(), 0x61c, 0x200e, 0x200f, 0x2028, 0x2029]
  .concat([0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069])
  .filter((code) => code < 0x20 || code >= 0x7f)
  .map((code) => String.fromCharCode(code));

/** One of each kind: Escape, Return, Delete, CSI of eight bits, a mark and an override of direction, ends of lines. */
const alone = ["\u001b", "\r", "\u007f", "\u009b", "\u200f", "\u202e", "\u2028"];

test.each(ways)("cannot control the terminal: %s", async (_, way) => {
  // No command line and no name of a file has a zero in it; a space separates words here.
  for (const hostile of [controls.slice(1).join(""), ...alone.map((control) => `x${control}]52;c;eA==`)]) {
    const { out, err } = await run(way(hostile));
    const written = out.toString() + err;
    expect(written).not.toBe("");
    expect(controls.filter((control) => control !== "\n" && written.includes(control))).toEqual([]);
  }
});
