/** What the README and the reference pages say is so: settings, and every path, script, method and command that they name. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import packageFile from "../../package.json" with { type: "json" };
import { referencePages } from "../../scripts/reference.ts";
import { readConfig } from "../../src/config/config.ts";
import { startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { contractServices } from "../harness/methods.ts";

const root = join(import.meta.dirname, "../..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const textOf = (file: string) => readFileSync(join(root, file), "utf8");
const blocksOf = (text: string, language: string) =>
  [...text.matchAll(RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(([, text = ""]) => text);

test.each([...referencePages()])("%s equals its generated form", (path, text) => {
  expect(textOf(path)).toBe(text);
});

const documents = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "*.md"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\n")
  .filter(
    (file) => /^([A-Z]+\.md$|(docs|deploy|bench|examples|clients|tools)\/)/.test(file) && existsSync(join(root, file)),
  );

/** Anchors of a page's headings, as GitHub makes them. */
function anchorsOf(file: string): readonly string[] {
  const headings = textOf(file)
    .replaceAll(/^```.*?^```/gms, "")
    .matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-"),
  );
}

test.each(documents)("every link of %s leads to an existing file and heading", (file) => {
  const links = textOf(file)
    .replaceAll(/^ *```.*?^ *```/gms, "")
    .matchAll(/\]\(([^)#\s]*)(?:#([^)]*))?\)/g);
  const broken = [...links].filter(([, target = "", anchor]) => {
    if (/^[a-z]+:/.test(target)) return false;
    const path = target === "" ? file : join(dirname(file), target);
    if (!existsSync(join(root, path))) return true;
    return anchor !== undefined && path.endsWith(".md") && !anchorsOf(path).includes(anchor);
  });
  expect(broken.map(([link]) => link)).toEqual([]);
});

test("every page of the documentation is linked from its index", () => {
  const index = textOf("docs/README.md");
  const pages = documents.filter((file) => file.startsWith("docs/") && file !== "docs/README.md");
  expect(pages.filter((page) => !index.includes(`](${page.slice("docs/".length)}`))).toEqual([]);
});

test("every command in a document exists, with its options", () => {
  const sections = textOf("docs/reference/commands.md").replaceAll("&lt;", "<").split(/^## /m).slice(1);
  const common = ["--json", "--config", "--version", "--help"];
  const commands = sections.map((text) => {
    const options = [...text.matchAll(/^\| `([^`]+)` \|/gm)].flatMap(
      ([, flags = ""]) => flags.match(/--[\w-]+/g) ?? [],
    );
    return { name: (text.split("\n", 1)[0] ?? "").replace(/ [<[].*/, ""), options: [...options, ...common] };
  });
  const shown = documents.flatMap((file) =>
    [
      ...textOf(file)
        .replaceAll("\\\n", " ")
        .matchAll(/npm run (?:-s )?cli -- ((?!<)[^`\n#]+)/g),
    ].map(([, line = ""]) => ({ file, line })),
  );
  expect(shown.length).toBeGreaterThan(50);
  const wrong = shown.filter(({ line }) => {
    const words = line.replace(/^(--config \S+|--json) /, "").trim();
    const isOf = ({ name }: { name: string }) => words === name || words.startsWith(`${name} `);
    const command = commands.filter(isOf).sort((a, b) => b.name.length - a.name.length)[0];
    const options = words.replaceAll(/'[^']*'|"[^"]*"/g, "").match(/(?<=\s|^)--[\w-]+/g) ?? [];
    return (
      !options.every((option) => (command?.options ?? common).includes(option)) ||
      (command === undefined && options.length === 0)
    );
  });
  expect(wrong).toEqual([]);
});

test("no command in a document writes npm's own lines to a file or a program", () => {
  const shown = documents.flatMap(
    (file) =>
      textOf(file)
        .replaceAll("\\\n", " ")
        .match(/^ *npm run .* [|>].*/gm) ?? [],
  );
  expect(shown).not.toEqual([]);
  expect(shown.filter((line) => !/npm run -s /.test(line))).toEqual([]);
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

test("every npm script in a document exists", () => {
  const named = [...readme.matchAll(/npm (?:run ([\w:]+)|(test|start))/g)].map(([, script, short]) => script ?? short);
  expect(named.length).toBeGreaterThan(4);
  expect(Object.keys(packageFile.scripts)).toEqual(expect.arrayContaining(named));
});

test("the methods are the contract's", () => {
  const methods = contractServices.flatMap((service) => service.methods.map(({ name }) => `${service.name}/${name}`));
  const rows = [...textOf("docs/reference/api.md").matchAll(/^\| `(\w+Service\/\w+)`/gm)].map(([, method]) => method);
  expect(rows).toEqual(methods);
});

test("the production start is complete except for its files", () => {
  const start = blocksOf(textOf("docs/operations.md"), "sh").find((text) => text.includes("npm start")) ?? "";
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

test("the first call from TypeScript runs", async () => {
  const program = "dev/first-call.ts";
  const gateway = await forTest(startGateway());
  const env = { PATH: process.env.PATH, BASE: gateway.url, TOKEN: await gateway.token() };
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, program)], { env });
  expect(stdout).toBe("allow: true, use sdk_embedded_library\n");
});
