/** What the README says is so: its table of settings, and every path, script, method and command that it names. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import packageFile from "../../package.json" with { type: "json" };
import { withSettingsTable } from "../../scripts/settings-table.ts";
import { readConfig } from "../../src/config/config.ts";
import { authzenServices, bulkServices, publicServices } from "../../src/transport/calls/methods.ts";
import { startGateway } from "../harness/gateway.ts";

const root = join(import.meta.dirname, "../..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const textOf = (file: string) => readFileSync(join(root, file), "utf8");
const blocks = (language: string) =>
  [...readme.matchAll(RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(([, text = ""]) => text);
const inline = [...readme.replaceAll(/^```.*?^```/gms, "").matchAll(/`([^`\n]+)`/g)].map(([, text = ""]) => text);

test("the settings table is the one that the service reads", () => {
  expect(readme).toBe(withSettingsTable(readme));
});

describe("paths", () => {
  /** What a running service makes, or a build. */
  const isMadeLater = (path: string) => /^(\.\/)?(data|dist)\//.test(path);
  const paths = inline.filter((text) =>
    /^[a-z.][\w.-]*(\/[\w.-]+)+$|^(src|gen|dev|test|bench|docs|proto|policies|examples|scripts)$/.test(text),
  );

  test.each([...new Set(paths)].filter((path) => !isMadeLater(path)))("%s exists", (path) => {
    expect(existsSync(join(root, path))).toBe(true);
  });

  test("every folder of the source has its row", () => {
    const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    for (const { name } of folders) expect(readme).toContain(`| \`src/${name}\` |`);
  });
});

test("every source file that a comment or a document names exists", () => {
  const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" })
    .split("\n")
    .filter((file) => existsSync(join(root, file)));
  const readers = files.filter((file) => /^(src|test|dev|bench|scripts|docs)\/.*\.(ts|md)$|^README\.md$/.test(file));
  const missing = readers
    .filter((file) => !file.startsWith("test/fixtures/"))
    .flatMap((file) => {
      const text = readFileSync(join(root, file), "utf8");
      const named = [...text.matchAll(/`((?:[\w-]+\/)*[\w-]+\.ts)`/gm)].map(([, name]) => name);
      return named
        .filter((name) => !files.some((known) => `/${known}`.endsWith(`/${name}`)))
        .map((name) => `${file}: ${name}`);
    });
  expect(missing).toEqual([]);
});

test("every npm script that is named exists", () => {
  const named = [...readme.matchAll(/npm (?:run ([\w:]+)|(test|start))/g)].map(([, script, short]) => script ?? short);
  expect(named.length).toBeGreaterThan(8);
  expect(Object.keys(packageFile.scripts)).toEqual(expect.arrayContaining(named));
});

test("the methods are those of the contract", () => {
  const methods = [...publicServices, ...bulkServices, BulkStreamService, ...authzenServices].flatMap((service) =>
    service.methods.map(({ name }) => `${service.name}/${name}`),
  );
  const rows = [...readme.matchAll(/^\| `(\w+Service\/\w+)`/gm)].map(([, method]) => method);
  expect(rows).toEqual(methods);
});

test("the commands are those of the command line", () => {
  const help = execFileSync(process.execPath, [join(root, "src/cli/cli.ts"), "--help"], { encoding: "utf8" });
  const commands = [...(help.split("Commands:\n")[1] ?? "").matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name);
  const table = readme.slice(readme.indexOf("## Command line"), readme.indexOf("## Where things are"));
  const rows = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  expect(rows.toSorted()).toEqual(commands.filter((name) => name !== "help").toSorted());
});

test("the production start is complete but for its files", () => {
  const start = blocks("sh").find((text) => text.includes("npm start")) ?? "";
  const settings = Object.fromEntries([...start.matchAll(/(SVC_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
  expect(Object.keys(settings).length).toBeGreaterThan(5);
  const pem: Readonly<Record<string, string>> = {
    "/etc/svc/tls.crt": "server.crt.pem",
    "/etc/svc/tls.key": "server.key.pem",
    "/etc/svc/clients.crt": "server.crt.pem",
  };
  const files = {
    isDirectory: (path: string) => path === "/etc/svc/policies",
    permissions: () => 0o640,
    readText: (path: string) => textOf(join("test/unit/config/fixtures", pem[path] ?? "")),
  };
  expect(readConfig(settings, undefined, { uses: "serve", files })).toHaveProperty("config");
});

test("the TypeScript call is a program that runs", async () => {
  const program = "dev/first-call.ts";
  expect(blocks("ts")).toEqual([textOf(program)]);
  const gateway = await startGateway();
  try {
    const env = { PATH: process.env.PATH, BASE: gateway.url, TOKEN: await gateway.token() };
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, program)], { env });
    expect(stdout).toBe("allow: true, use sdk_embedded_library\n");
  } finally {
    await gateway.stop();
  }
});
