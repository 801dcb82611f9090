/**
 * What a policy directory with many entities takes to load, and what they cost decisions: those that read none, and those
 * that do. `node bench/policy-entities.ts [--entities 100000] [--seconds 2]`
 */
import { posix } from "node:path";
import { parseArgs } from "node:util";
import { checkParseEntities } from "@cedar-policy/cedar-wasm/nodejs";
import { parsePrincipalId, parseTenantId } from "../src/base/ids.ts";
import type { PolicyQuery } from "../src/policy/engine/decision.ts";
import { compilePolicyBundle } from "../src/policy/engine/engine.ts";
import { bundleContent } from "../src/policy/load/bundle.ts";
import { loadPolicyDirectory, type PolicyFileSystem } from "../src/policy/load/directory.ts";

const { values } = parseArgs({
  options: { entities: { type: "string", default: "100000" }, seconds: { type: "string", default: "2" } },
});
const count = Number(values.entities);
const seconds = Number(values.seconds);

const schema = `namespace Org {
  entity Label in [Label] = { "rank": Long, "owner"?: Team };
  entity Team;
  entity Application = { "tier": Long };
}
`;
const manifest = 'platform: platform\ntenants: { "*": default }\n';
const declared = `entities:
  schema: org.cedarschema
  files: [org.json]
  labels: Org::Label
  application: Org::Application
`;
const plain = '@id("plain") permit (principal, action, resource) when { context.claimed.resource.kind == "record" };';
const reading = `@id("reading") permit (principal, action, resource)
when { context.claimed.label_set in Org::Label::"label-0" && context.claimed.label_set has max_rank };`;

/** Labels in a tree of ten branches each, one team. */
const list = Array.from({ length: count }, (_, at) => ({
  uid: { type: "Org::Label", id: `label-${at}` },
  attrs: { rank: at % 10, owner: { type: "Org::Team", id: "team" } },
  parents: at === 0 ? [] : [{ type: "Org::Label", id: `label-${Math.floor((at - 1) / 10)}` }],
}));
const entities = [{ uid: { type: "Org::Team", id: "team" }, attrs: {}, parents: [] }, ...list];

function filesWith(policy: string, hasEntities: boolean): Readonly<Record<string, string>> {
  return {
    "manifest.yaml": hasEntities ? manifest + declared : manifest,
    "platform/all.cedar": '@id("all") permit (principal, action, resource);',
    "default/rule.cedar": policy,
    ...(hasEntities && { "org.cedarschema": schema, "org.json": JSON.stringify(entities) }),
  };
}

function memory(files: Readonly<Record<string, string>>): PolicyFileSystem {
  const paths = Object.keys(files).map((file) => posix.join("/policies", file));
  const names = (path: string) =>
    paths.filter((file) => file.startsWith(`${path}/`)).map((file) => file.slice(path.length + 1).split("/")[0] ?? "");
  return {
    realpath: async (path) => path,
    readdir: async (path) => [...new Set(names(path))],
    stat: async (path) => ({ isFile: () => paths.includes(path), isDirectory: () => !paths.includes(path), size: 0 }),
    readFile: async (path) => Buffer.from(files[posix.relative("/policies", path)] ?? "", "utf8"),
  };
}

async function load(policy: string, hasEntities: boolean) {
  const files = memory(filesWith(policy, hasEntities));
  const beganMs = performance.now();
  const { bundle, problems } = await loadPolicyDirectory("/policies", files);
  if (bundle === undefined) throw new Error(JSON.stringify(problems));
  const checkedMs = performance.now();
  const { engine } = compilePolicyBundle(bundle, { cachedDecisions: 0 });
  if (engine === undefined) throw new Error("a loaded bundle compiles");
  const endedMs = performance.now();
  return { bundle, engine, checkMs: checkedMs - beganMs, compileMs: endedMs - checkedMs };
}

const tenantId = parseTenantId("tenant-a");
const principalId = parsePrincipalId("writer");
if (tenantId === undefined || principalId === undefined) throw new TypeError("ids");
let asked = 0;
function question(): PolicyQuery {
  if (tenantId === undefined || principalId === undefined) throw new TypeError("ids");
  asked++;
  return {
    caller: { tenantId, principalId, subject: "writer", authSource: "bearer_token", scopes: [] },
    action: "access",
    claimed: {
      workload: { application: "payroll" },
      resource: { kind: "record" },
      labels: [`label-${asked % count}`, `label-${(asked * 7919) % count}`],
      attributes: {},
      content_digest_present: false,
    },
  };
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

type Decider = { decide(query: PolicyQuery): unknown };

/** Takes turns, so that what else the machine does falls on all alike. Microseconds a decision, the median of rounds. */
function measure(deciders: Readonly<Record<string, Decider>>): Readonly<Record<string, number>> {
  const rounds = 15;
  const each = (seconds * 1_000) / rounds;
  const times = new Map(Object.keys(deciders).map((name) => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, decider] of Object.entries(deciders)) {
      const beganMs = performance.now();
      let decided = 0;
      while (performance.now() - beganMs < each) {
        for (let batch = 0; batch < 20; batch++) decider.decide(question());
        decided += 20;
      }
      times.get(name)?.push(((performance.now() - beganMs) * 1_000) / decided);
    }
  }
  return Object.fromEntries(
    [...times].map(([name, found]) => [name, found.sort((a, b) => a - b)[rounds >> 1] as number]),
  );
}

const without = await load(plain, false);
const known = await load(plain, true);
const read = await load(reading, true);
print(`${count} entities, ${(bundleContent(known.bundle).length / 1e6).toFixed(1)} MB`);
print(`load: read and judge ${known.checkMs.toFixed(0)} ms, compile ${known.compileMs.toFixed(0)} ms`);
print(`again: read and judge ${read.checkMs.toFixed(0)} ms, compile ${read.compileMs.toFixed(0)} ms`);
print(`without: read and judge ${without.checkMs.toFixed(0)} ms, compile ${without.compileMs.toFixed(0)} ms`);
const cedarBeganMs = performance.now();
checkParseEntities({ entities, schema });
print(`Cedar's own check of them: ${(performance.now() - cedarBeganMs).toFixed(0)} ms`);
const took = measure({ without: without.engine, "not read": known.engine, read: read.engine });
for (const [name, microseconds] of Object.entries(took)) print(`decision, ${name}: ${microseconds.toFixed(1)} µs`);
print(`not read / without: ${((took["not read"] ?? 0) / (took.without ?? 1)).toFixed(2)}`);
