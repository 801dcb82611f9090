/** The rooms: which may import from which. The rules are `scripts/arrows.ts`; this shows that they hold. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { breaches, rooms } from "../../scripts/arrows.ts";

const root = join(import.meta.dirname, "../..");
const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
const names = Object.keys(rooms);
const knowsProcess = ["app", "cli", "config", "main.ts"];
const knowsNoRoute = ["ledger", "ledger/tlog", "policy"];

/** Whom a room may never import from, and who alone may import a package, whatever the table comes to say. */
const lowest = ["auth", "files", "ledger", "policy", "telemetry"];
const onlyKnownBy: Readonly<Record<string, readonly string[]>> = {
  "@cedar-policy/cedar-wasm": ["policy"],
  "@connectrpc/connect": ["transport", "transport/codec"],
  commander: ["cli"],
  fastify: ["ops", "transport"],
  jose: ["auth"],
  "node:http2": ["transport"],
  "node:sqlite": ["stores"],
  pg: ["stores"],
  pino: ["telemetry"],
  "prom-client": ["telemetry"],
};

/** Packages that a room knows, some of their subpaths, and some that no room knows. */
const packages = [
  ...new Set(Object.values(rooms).flatMap((room) => room.packages)),
  ...["@bufbuild/protobuf/wkt", "@cedar-policy/cedar-wasm/nodejs", "@connectrpc/connect/protocol"],
  ...["@fastify/error", "fastify/types/instance.js", "kysely", "process"],
];
const spellings = [
  (path: string) => `import type { Any } from "${path}";`,
  (path: string) => `import { type Some } from "${path}";`,
  (path: string) => `export * from "${path}";`,
  (path: string) => `export type { Other } from "${path}";`,
  (path: string) => `export const any = () => import("${path}");`,
  (path: string) => `export type Type = import("${path}").Type;`,
  (path: string) => `export const url = new URL("${path}", import.meta.url);`,
];
const routes = [
  'export const path = "/v1/sdk/evidence";',
  "export const isQuestion = /policy-resolve$/;",
  "export const plan = (id) => `protection-plan $" + "{id}`;",
];
const processes = ["export const id = process.pid;"];
const environments = ["export const level = process.env.LEVEL;"];

const isFile = (name: string) => /\.[jt]s$/.test(name);
const isWithin = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`);
const importOf = (path: string) => `import "${path}";`;
/** From one file below `src` to a room, or a file of one. */
const pathTo = (file: string, to: string) => {
  const path = posix.relative(dirname(file), isFile(to) ? to : `${to}/any.ts`);
  return path.startsWith(".") ? path : `./${path}`;
};
const knownTo = (room: string) => (rooms[room]?.knows ?? []).map((name) => (name === "gen" ? "../gen" : name));
const mayImport = (room: string, to: string) => [room, ...knownTo(room)].some((known) => isWithin(to, known));
const mayUse = (room: string, name: string) => (rooms[room]?.packages ?? []).some((known) => isWithin(name, known));
const strangersOf = (room: string) => [...names, "../gen"].filter((to) => !mayImport(room, to));

/** Files of a project in which every line keeps to the rules, and of one in which every line breaks one. */
const allowed = new Map<string, readonly string[]>();
const forbidden = new Map<string, readonly string[]>();
for (const room of names) {
  const file = isFile(room) ? room : `${room}/any.ts`;
  const own = isFile(room) ? [] : ["node:crypto", "./own.ts", "./transport/own-folder.ts"];
  const isTyped = !file.endsWith(".js");
  allowed.set(file, [
    ...[...knownTo(room), ...names.filter((to) => to !== room && mayImport(room, to))].map((to) =>
      importOf(pathTo(file, to)),
    ),
    ...[...own, ...packages.filter((name) => mayUse(room, name))].map(importOf),
    ...(knowsNoRoute.includes(room) || !isTyped ? [] : routes),
    ...(knowsProcess.includes(room) ? processes : []),
  ]);
  forbidden.set(file, [
    ...strangersOf(room).map((to) => importOf(pathTo(file, to))),
    ...packages.filter((name) => !mayUse(room, name)).map(importOf),
    ...(knowsNoRoute.includes(room) ? routes : []),
    ...(knowsProcess.includes(room) || !isTyped ? [] : processes),
    ...(isTyped ? environments : []),
  ]);
  if (isFile(room)) continue;
  const deep = `${room}/deep/any.ts`;
  const stranger = strangersOf(room).find((to) => !isFile(to)) as string;
  forbidden.set(deep, [
    ...spellings.map((spelling) => spelling(pathTo(deep, stranger))),
    "export const unknown = (path) => import(path);",
  ]);
}
allowed.set("config/load.ts", environments);
const client = "../clients/typescript/src/any.ts";
allowed.set(client, [
  ...["./any.ts", "../examples/any.ts", "../../conformance/any.ts", "../../../gen/any.ts"].map(importOf),
  ...["node:fs", "svc-platform-client"].map(importOf),
  'import type { Any } from "../../../gen/platform/sdk/v1/any_pb.ts";',
]);
forbidden.set(client, [
  ...["src/base", "src/domain", "dev", "test/harness", "scripts"].map((to) => importOf(`../../../${to}/any.ts`)),
  ...spellings.slice(0, -1).map((spelling) => spelling("../../../src/base/any.ts")),
]);

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "arrows-"));
  cpSync(join(root, "biome.json"), join(directory, "biome.json"));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** Writes a project, and resolves with what the rules say of its lines. */
function judged(files: ReadonlyMap<string, readonly string[]>) {
  rmSync(join(directory, "src"), { recursive: true, force: true });
  rmSync(join(directory, "clients"), { recursive: true, force: true });
  for (const [file, lines] of files) {
    const path = join(directory, "src", file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, lines.join("\n"));
  }
  // A circle is said of lines that may be right by themselves.
  const found = breaches(directory).filter(({ problem }) => !problem.startsWith("circle"));
  const lines = new Set([...found.map(({ file, line }) => `${file}:${line}`), ...processesIn(directory)]);
  return [...files].map(([file, of]) => ({ file, lines: of.filter((_, index) => lines.has(`${file}:${index + 1}`)) }));
}

/** The process is kept out by the linter, which knows a global from a name. */
function processesIn(project: string): readonly string[] {
  const only = ["--only=style/noRestrictedGlobals", "--only=style/noProcessEnv"];
  const options = ["--vcs-enabled=false", "--reporter=github", "--max-diagnostics=none", ...only];
  const { stdout } = spawnSync(process.execPath, [biome, "lint", ...options, "src"], {
    cwd: project,
    encoding: "utf8",
  });
  return stdout.split("\n").flatMap((line) => {
    const [, file, at] = /^::error title=[^,]+,file=(?:.*\/)?src\/([^,]+),line=(\d+),/.exec(line) ?? [];
    return file === undefined ? [] : [`${file}:${at}`];
  });
}

test("no line that the table allows is refused", () => {
  expect(judged(allowed)).toEqual([...allowed.keys()].map((file) => ({ file, lines: [] })));
});

test("every line that the table does not allow is refused", () => {
  expect(judged(forbidden)).toEqual([...forbidden].map(([file, lines]) => ({ file, lines })));
});

describe("the table", () => {
  test("keeps the lowest rooms apart, and the domain from the ways in and out", () => {
    expect(knownTo("base")).toEqual([]);
    for (const room of lowest) expect(knownTo(room), room).toEqual(["base"]);
    const ways = ["app", "auth", "cli", "config", "ops", "portal", "stores", "telemetry", "transport", "../gen"];
    expect(ways.filter((to) => mayImport("domain", to))).toEqual([]);
    expect(["app", "cli", "ops", "portal", "transport", "../gen"].filter((to) => mayImport("stores", to))).toEqual([]);
    expect(["app", "cli", "policy", "portal", "stores"].filter((to) => mayImport("transport", to))).toEqual([]);
  });

  test.each(Object.entries(onlyKnownBy))("gives %s to %j alone", (name, owners) => {
    expect(names.filter((room) => mayUse(room, name)).sort()).toEqual(owners);
  });
});

test("a file belongs to a room", () => {
  judged(new Map([["stray.ts", ["export const stray = true;"]]]));
  expect(breaches(directory)).toEqual([{ file: "stray.ts", line: 1, problem: "belongs to no room" }]);
});

test("imports do not go round in a circle, of types neither", () => {
  const importing = (other: string) => [
    "/** Goes round by way of a type. */",
    `import type { Other } from "./${other}.ts";`,
    "export type One = Other;",
  ];
  const circle = (one: string, other: string) => ({
    file: `base/${one}.ts`,
    line: 2,
    problem: `circle: ${[one, other, one].map((name) => `base/${name}.ts`).join(" → ")}`,
  });
  judged(
    new Map(
      [...["two", "one", "two"].entries()].map(([at, to]) => [`base/${["one", "two", "three"][at]}.ts`, importing(to)]),
    ),
  );
  // Three leads to the circle, and is not on it.
  expect(breaches(directory)).toEqual([circle("one", "two"), circle("two", "one")]);
});

test("the source keeps to all of it", () => {
  expect(breaches(root)).toEqual([]);
});
