/**
 * The rooms of `src`, what each may import, and a check of the source, run by `npm run lint`. `clients` is outside and
 * imports nothing of it. The check sees every import, also of types, as a statement, a call, a type or a worker's URL.
 * Import cycles are not allowed, between files or folders, and the rooms below the domain name no route.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseSync, Visitor } from "rolldown/utils";

interface Room {
  /** Folders and files below `src` that it may import besides its own; `gen` is beside it. */
  readonly knows: readonly string[];
  /** Packages that it may import, including their subpaths, and those of Node's own modules that are restricted. */
  readonly packages: readonly string[];
}

const rpcPackages = [
  ...["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node"],
  ...["fastify", "node:http", "node:http2"],
];

/**
 * A file belongs to the room with the longest matching name. A nested room may import only what it names itself; the
 * outer room may import it.
 */
export const rooms: Readonly<Record<string, Room>> = {
  "main.js": { knows: ["main.ts", "runtime"], packages: [] },
  "main.ts": { knows: ["cli", "runtime"], packages: [] },
  runtime: { knows: [], packages: ["node:module"] },
  cli: {
    knows: [
      ...["app", "base", "config", "credentials", "domain", "files", "ledger", "policy", "runtime", "stores"],
      ...["auth/introspection.ts", "auth/issuer-documents.ts", "auth/session-tokens.ts", "telemetry/logger.ts"],
    ],
    packages: ["commander", "node:process"],
  },
  app: {
    knows: [
      ...["auth", "base", "config", "credentials", "domain", "files", "gen", "http", "ledger", "ops", "policy"],
      ...["portal", "stores", "telemetry", "transport"],
    ],
    packages: ["@bufbuild/protobuf", "node:http", "node:process"],
  },
  portal: {
    knows: ["auth", "base", "domain", "gen", "transport/rest/page.ts"],
    packages: ["node:http", "node:module", "swagger-ui-dist", "yaml"],
  },
  transport: {
    knows: ["auth", "base", "domain", "gen", "http", "telemetry"],
    packages: ["@bufbuild/protobuf", "fastify", "node:http"],
  },
  "transport/unauthenticated": {
    knows: ["base", "gen", "http", "transport/calls", "transport/connect"],
    packages: rpcPackages,
  },
  "transport/connect": {
    knows: ["base", "gen", "http", "transport/calls", "transport/codec", "transport/gate", "transport/grpc"],
    packages: rpcPackages,
  },
  "transport/grpc": { knows: ["base", "http", "transport/calls"], packages: rpcPackages },
  "transport/rest": { knows: ["base", "gen", "http", "transport/calls", "transport/codec"], packages: rpcPackages },
  "transport/rpc": {
    knows: ["auth", "base", "domain", "gen", "transport/calls", "transport/codec", "transport/gate"],
    packages: rpcPackages,
  },
  "transport/gate": {
    knows: ["auth", "base", "domain", "http", "transport/calls", "transport/codec"],
    packages: rpcPackages,
  },
  "transport/calls": {
    knows: ["auth", "base", "domain", "gen", "http", "telemetry", "transport/codec"],
    packages: rpcPackages,
  },
  "transport/codec": {
    knows: ["base", "domain", "gen"],
    packages: ["@bufbuild/protobuf"],
  },
  ops: {
    knows: [
      "auth/sign-in.ts",
      "base",
      "http",
      "ledger/ports",
      "ledger/report",
      "ledger/search/search-query.ts",
      "telemetry",
    ],
    packages: ["fastify", "node:http"],
  },
  http: { knows: ["base"], packages: ["lru-cache", "node:http", "node:http2"] },
  telemetry: {
    knows: ["base"],
    packages: [
      ...["@opentelemetry/api", "@opentelemetry/core", "@opentelemetry/exporter-trace-otlp-proto"],
      ...["@opentelemetry/resources", "@opentelemetry/sdk-trace", "pino", "prom-client"],
    ],
  },
  config: { knows: ["base", "files/file-system.ts"], packages: ["node:process", "valibot", "yaml"] },
  // Each knows only those before it; the two drivers do not know each other.
  "stores/files": { knows: ["base", "files", "ledger"], packages: ["node:sqlite"] },
  "stores/sql": {
    knows: ["auth/replay-store.ts", "base", "domain/ports.ts", "files", "ledger", "stores/files"],
    packages: ["lru-cache"],
  },
  "stores/sqlite": {
    knows: ["auth/replay-store.ts", "base", "domain/ports.ts", "files", "ledger", "stores/files", "stores/sql"],
    packages: ["lru-cache", "node:sqlite"],
  },
  "stores/postgres": {
    knows: ["auth/replay-store.ts", "base", "domain/ports.ts", "files", "ledger", "stores/files", "stores/sql"],
    packages: ["lru-cache", "pg"],
  },
  "stores/backends.ts": { knows: ["stores"], packages: [] },
  auth: { knows: ["base"], packages: ["jose", "lru-cache", "node:https"] },
  credentials: { knows: ["base", "files"], packages: [] },
  files: { knows: ["base"], packages: [] },
  domain: { knows: ["base", "gen/record-relations.ts", "ledger", "policy"], packages: ["lru-cache"] },
  // Each knows only those before it.
  "ledger/tlog": { knows: ["base"], packages: ["lru-cache"] },
  "ledger/ports": { knows: ["base", "ledger/tlog"], packages: [] },
  "ledger/artifacts": { knows: ["base", "ledger/ports"], packages: ["multiformats"] },
  "ledger/search": { knows: ["base", "ledger/artifacts", "ledger/ports"], packages: ["lru-cache"] },
  "ledger/record": { knows: ["base", "ledger/ports", "ledger/tlog"], packages: ["canonicalize"] },
  "ledger/report": { knows: ["base", ...["ports", "search", "tlog"].map((room) => `ledger/${room}`)], packages: [] },
  "ledger/append": {
    knows: ["base", ...["artifacts", "ports", "record", "search", "tlog"].map((room) => `ledger/${room}`)],
    packages: ["lru-cache", "uuid"],
  },
  "ledger/audit": {
    knows: ["base", ...["artifacts", "ports", "record", "search", "tlog"].map((room) => `ledger/${room}`)],
    packages: [],
  },
  "ledger/pack": {
    knows: ["base", ...["ports", "record", "search", "tlog"].map((room) => `ledger/${room}`)],
    packages: [],
  },
  "ledger/witness": { knows: ["base", "ledger/ports", "ledger/tlog"], packages: [] },
  // Each knows only those before it.
  "policy/model": { knows: ["base"], packages: ["@cedar-policy/cedar-wasm", "node:module", "yaml"] },
  "policy/guidance": { knows: ["base", "policy/model"], packages: ["@cedar-policy/cedar-wasm"] },
  "policy/load": { knows: ["base", "policy/guidance", "policy/model"], packages: ["canonicalize", "yaml"] },
  "policy/evaluate": { knows: ["base", "policy/model"], packages: ["@cedar-policy/cedar-wasm", "lru-cache"] },
  "policy/check": {
    knows: ["base", "policy/evaluate", "policy/guidance", "policy/load", "policy/model"],
    packages: ["@cedar-policy/cedar-wasm"],
  },
  "policy/engine": {
    knows: ["base", "policy/check", "policy/evaluate", "policy/guidance", "policy/load", "policy/model"],
    packages: ["@cedar-policy/cedar-wasm", "lru-cache"],
  },
  "policy/diff": {
    knows: ["base", ...["check", "engine", "evaluate", "guidance", "load", "model"].map((room) => `policy/${room}`)],
    packages: ["canonicalize"],
  },
  base: { knows: [], packages: ["ipaddr.js", "node:module", "uuid"] },
};

/** Node modules that only rooms which name them may import; all others are unrestricted. */
const guardedModules = ["node:http", "node:http2", "node:https", "node:module", "node:process", "node:sqlite"];

/** Rooms that must not name a route, and the pattern of a route. */
const withoutRoutes = ["ledger", "policy"];
const route = /\/v1\/sdk|protection-plan|policy-resolve|key-access-plan|artifact-register/;

/** The file that may call `JSON.parse`, which misreads names with escapes. */
const jsonParser = "base/json.ts";

/** Files that load a module named by their options. */
const loaders = ["stores/sqlite/worker.ts"];

/** Files outside of `src` that any room may import. */
const besides = ["package.json", "console/dist/index.html"];

export interface Breach {
  /** Path below `src`. */
  readonly file: string;
  readonly line: number;
  readonly problem: string;
}

interface Import {
  readonly file: string;
  readonly line: number;
  /** Undefined if it is not a literal in the source, and so cannot be checked. */
  readonly specifier: string | undefined;
}

/** Breaches of the rules below `<root>/src`, file by file. */
export function breaches(root: string): readonly Breach[] {
  const source = join(root, "src");
  const files = readdirSync(source, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => /\.[cm]?[jt]s$/.test(file) && !file.includes("portal/assets/"))
    .sort();
  const contents = files.map((file) => contentOf(file, readFileSync(join(source, file), "utf8")));
  const imports = contents.flatMap((content) => content.imports);
  const homeless = files.filter((file) => roomOf(file) === undefined);
  return [
    ...clientBreaches(root),
    ...homeless.map((file) => ({ file, line: 1, problem: "belongs to no room" })),
    ...imports.flatMap(({ file, line, specifier }) => {
      const problem = problemOf(file, specifier);
      return problem === undefined ? [] : [{ file, line, problem }];
    }),
    ...contents.flatMap(({ others }) => others),
    ...circles(imports, (file) => file),
    ...circles(imports, (path) => (besides.includes(path) ? path : dirname(path))),
  ];
}

/** Clients are packages that others install: they know nothing of the service but its generated contract. */
function clientBreaches(root: string): readonly Breach[] {
  const folder = join(root, "clients");
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => /\.ts$/.test(file) && !/(^|\/)(node_modules|dist|target)\//.test(file));
  return files.flatMap((file) =>
    contentOf(file, readFileSync(join(folder, file), "utf8")).imports.flatMap(({ line, specifier }) => {
      if (!specifier?.startsWith(".")) return [];
      const target = join("clients", dirname(file), specifier).replaceAll("\\", "/");
      const isKnown = ["clients", "gen"].some((known) => isWithin(target, known));
      return isKnown ? [] : [{ file: `../clients/${file}`, line, problem: `clients may not import ${target}` }];
    }),
  );
}

/** Name of the room that a file below `src` belongs to. */
export function roomOf(file: string): string | undefined {
  const names = Object.keys(rooms).filter((name) => isWithin(file, name));
  return names.sort((one, other) => other.length - one.length)[0];
}

interface Content {
  readonly imports: readonly Import[];
  /** Routes that are named in a room that must not name any, and JSON that is parsed as it must not be. */
  readonly others: readonly Breach[];
}

function contentOf(file: string, text: string): Content {
  const found: Import[] = [];
  const others: Breach[] = [];
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors[0]?.message}`);
  const lineOf = ({ start }: { start: number }) => text.slice(0, start).split("\n").length;
  const isWithoutRoutes = withoutRoutes.some((room) => isWithin(file, room));
  const look = (node: { start: number }, said: string) => {
    if (isWithoutRoutes && route.test(said)) others.push({ file, line: lineOf(node), problem: "speaks of a route" });
  };
  const note = (node: { start: number }, source: unknown) => {
    const isText = typeof source === "object" && source !== null && "value" in source;
    const specifier = isText && typeof source.value === "string" ? source.value : undefined;
    found.push({ file, line: lineOf(node), specifier });
  };
  new Visitor({
    ImportDeclaration: (node) => note(node, node.source),
    ExportAllDeclaration: (node) => note(node, node.source),
    ExportNamedDeclaration: (node) => node.source && note(node, node.source),
    ImportExpression: (node) => note(node, node.source),
    TSImportType: (node) => note(node, node.source),
    TSExternalModuleReference: (node) => note(node, node.expression),
    MemberExpression: (node) => {
      const isParse = text.slice(node.start, node.end) === "JSON.parse";
      if (isParse && file !== jsonParser) others.push({ file, line: lineOf(node), problem: `use ${jsonParser}` });
    },
    Literal: (node) => look(node, node.raw ?? ""),
    TemplateElement: (node) => look(node, node.value.raw),
    NewExpression: (node) => {
      const [path, base] = node.arguments;
      if (base?.type === "MemberExpression" && base.object.type === "MetaProperty") note(node, path);
    },
  }).visit(program);
  return { imports: found, others };
}

function problemOf(file: string, specifier: string | undefined): string | undefined {
  const name = roomOf(file);
  if (name === undefined) return undefined;
  const { knows, packages } = rooms[name] as Room;
  if (specifier === undefined) return loaders.includes(file) ? undefined : "imports what the source does not name";
  if (!specifier.startsWith(".")) {
    if (specifier.startsWith("node:") && !guardedModules.includes(specifier)) return undefined;
    return packages.some((known) => isWithin(specifier, known)) ? undefined : `src/${name} does not know ${specifier}`;
  }
  const target = targetOf(file, specifier);
  const isKnown = [name, ...knows, ...besides].some((known) => isWithin(target, known));
  return isKnown ? undefined : `src/${name} may not import ${target}`;
}

/** Path below `src`, or from the root of the project if it is outside. */
function targetOf(file: string, specifier: string): string {
  const path = join("src", dirname(file), specifier).replaceAll("\\", "/");
  return path.startsWith("src/") ? path.slice("src/".length) : path;
}

const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** Every file, or every folder, that imports itself through others, by the shortest path from its first import. */
function circles(imports: readonly Import[], placeOf: (file: string) => string): readonly Breach[] {
  const edges = new Map<string, Import[]>();
  for (const each of imports) edges.set(placeOf(each.file), [...(edges.get(placeOf(each.file)) ?? []), each]);
  return [...edges.keys()].flatMap((start) => {
    const ways = new Map<string, Pick<Import, "file" | "line"> & { readonly path: string }>();
    const queue = [start];
    for (const place of queue) {
      for (const { file, line, specifier } of edges.get(place) ?? []) {
        if (!specifier?.startsWith(".")) continue;
        const target = placeOf(targetOf(file, specifier));
        const way = ways.get(place) ?? { file, line, path: place };
        const isInside = target === place && target !== file;
        if (isInside || ways.has(target)) continue;
        ways.set(target, { ...way, path: `${way.path} → ${target}` });
        queue.push(target);
      }
    }
    const way = ways.get(start);
    return way === undefined ? [] : [{ file: way.file, line: way.line, problem: `circle: ${way.path}` }];
  });
}

if (import.meta.main) {
  const found = breaches(join(import.meta.dirname, ".."));
  for (const { file, line, problem } of found) process.stderr.write(`src/${file}:${line}: ${problem}\n`);
  if (found.length > 0) process.exitCode = 1;
}
