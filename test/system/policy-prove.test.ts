/** `policy diff --prove` with the prover and the solver themselves. */
import { execFileSync } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { askProver } from "../../src/cli/policy/prover-process.ts";
import { loadPolicyDirectory } from "../../src/policy/check/check.ts";
import { compareBundles } from "../../src/policy/diff/compare.ts";
import { type Proof, proveEqual } from "../../src/policy/diff/prove.ts";
import type { PolicyBundle } from "../../src/policy/load/bundle.ts";
import { differenceOf, type PolicyQuery } from "../../src/policy/model/decision.ts";
import { describeProblem } from "../../src/policy/model/problem.ts";
import { parseQuery } from "../../src/policy/model/query.ts";
import { folderForFile } from "../harness/folder.ts";
import { listenForHanging } from "../harness/hanging.ts";
import { runProgram } from "../harness/process.ts";
import { run } from "../unit/cli/surroundings.ts";
import { knowingFiles } from "../unit/policy/entities.ts";
import {
  anyQueries,
  declaringFiles,
  engineOf,
  type Files,
  memoryFileSystem,
  openFiles,
} from "../unit/policy/harness.ts";
import { attributeConditions, conditions, onBehalfOfConditions, registeredConditions } from "../unit/policy/pool.ts";

const root = join(import.meta.dirname, "../..");
const source = join(root, "tools/policy-prover");
const program = join(source, "target/debug/policy-prover");
const solver = join(source, "cvc5");
const limits = { timeout: 600_000 };
const folder = folderForFile("prove");

execFileSync(join(source, "build.sh"), { stdio: "pipe" });
afterEach(() => {
  delete process.env.CVC5;
});

async function bundleOf(files: Files): Promise<PolicyBundle> {
  const loaded = await loadPolicyDirectory("/policies", memoryFileSystem(files));
  if (loaded.problems !== undefined) throw new Error(loaded.problems.map(describeProblem).join("\n"));
  return loaded.bundle;
}

async function prove(old: Files, next: Files, seconds = 120, asking = solver): Promise<Proof> {
  process.env.CVC5 = asking;
  const [before, after] = [await bundleOf(old), await bundleOf(next)];
  const asked = await proveEqual(before, after, seconds * 1_000, (request) =>
    askProver(request, { program, onAnswer: () => {} }),
  );
  if ("missing" in asked) throw new Error(asked.missing);
  return asked;
}

const textOf = (file: string) => String(knowingFiles[file]);
const isEqual = ({ proven, statements, found, undecided }: Proof) =>
  proven === statements && found.length === 0 && undecided.length === 0;

/** Of one action: every other would be asked about as well. */
const policy = (effect: "permit" | "forbid", condition: string, id = "p") =>
  `@id("${id}") ${effect} (principal, action == Action::"protect", resource) when { ${condition} };\n`;
/** Everything that there is to read but principals, whom entities may not refer to here. */
const readableFiles: Files = {
  ...knowingFiles,
  "org.cedarschema": textOf("org.cedarschema").replace('"principals": Set<Principal>, ', ""),
  "others.json": JSON.stringify(JSON.parse(textOf("others.json")), (key, value) =>
    key === "principals" ? undefined : value,
  ),
};
const forbidding = (condition: string): Files => ({ ...readableFiles, "default/p.cedar": policy("forbid", condition) });

test("is formatted, and free of warnings", limits, async () => {
  await runProgram(join(source, "check.sh"), []);
});

const size = "context.claimed.content_size_bytes";
const sized = "context.claimed has content_size_bytes";
const registered = "context has registered";
const rank = "context.claimed has label_set && context.claimed.label_set has max_rank";

/** Conditions that are one, said in two ways; the search decides few of them. */
const equal: readonly (readonly [string, string, string])[] = [
  ["a sum", `${sized} && ${size} + 1 > 9`, `${sized} && ${size} >= 9`],
  ["a product that does not overflow", `${sized} && ${size} * 3 == 12`, `${sized} && ${size} == 4`],
  ["De Morgan", `if ${sized} then !(${size} > 9) else true`, `!(${sized} && ${size} * 2 > 18)`],
  [
    "facts of the ledger",
    `${registered} && context.registered.labels.contains("a")`,
    `${registered} && context.registered.labels.contains("a") && context.registered.labels_ever.contains("a")`,
  ],
  ["attributes of the caller", "principal.clearance * 2 > 5", "principal.clearance - 1 >= 2"],
  [
    "entities",
    `${rank} && context.claimed.label_set.max_rank >= 3`,
    `${rank} && context.claimed.label_set.max_rank > 2`,
  ],
  [
    "an entity",
    'context.claimed.label_set in Org::Label::"eu" && principal.clearance + 1 > 1',
    'context.claimed.label_set in [Org::Label::"eu"] && principal.clearance > 0',
  ],
  [
    "sets",
    'principal.scopes.containsAny(["a", "b"])',
    'principal.scopes.contains("b") || principal.scopes.contains("a")',
  ],
  [
    "tags",
    'context.claimed.attributes.hasTag("a") && context.claimed.attributes.getTag("a") like "*"',
    'context.claimed.attributes.hasTag("a")',
  ],
  [
    "like",
    'context.claimed.resource.kind like "ab*" && context.claimed.resource.kind like "*b"',
    'context.claimed.resource.kind == "ab" || context.claimed.resource.kind like "ab*b"',
  ],
  ["decimal", 'decimal("1.50").lessThan(decimal("2.5")) && context.claimed has purpose', "context.claimed has purpose"],
  ["ip", 'ip("10.0.0.1").isInRange(ip("10.0.0.0/8")) && context.claimed has purpose', "context.claimed has purpose"],
  [
    "datetime",
    'datetime("2026-01-31").offset(duration("1d")) == datetime("2026-02-01") && context.claimed has purpose',
    "context.claimed has purpose",
  ],
  [
    "closed lists",
    '!["trusted_headers", "session_token"].contains(principal.auth_source)',
    'principal.auth_source == "bearer_token"',
  ],
  ["identities", 'principal == Principal::"t/a"', 'principal.tenant == "t" && principal.principal_id == "a"'],
];

describe("a refactoring is proven equal", limits, () => {
  test.each(equal)("%s", async (_name, old, next) => {
    const proof = await prove(forbidding(old), forbidding(next));
    expect(proof).toMatchObject({ found: [], undecided: [], proven: proof.statements });
  });
});

/** Conditions that differ, and what the example claims or the caller has. */
const different: readonly (readonly [string, string, string])[] = [
  ["a sum", `${sized} && ${size} + 1 > 9`, `${sized} && ${size} > 9`],
  [
    "facts of the ledger",
    `${registered} && context.registered.labels.contains("a")`,
    `${registered} && context.registered.labels_ever.contains("a")`,
  ],
  [
    "time of registration",
    `${registered} && context.registered.registered_at * 2 > 10`,
    `${registered} && context.registered.registered_at > 6`,
  ],
  ["attributes of the caller", "principal.clearance * 2 > 5", "principal.clearance > 3"],
  [
    "tags",
    'context.claimed.attributes.hasTag("a") && context.claimed.attributes.getTag("a") like "x*y"',
    'context.claimed.attributes.hasTag("a") && context.claimed.attributes.getTag("a") like "*y"',
  ],
  ["an overflow", `${sized} && !(${size} * 4096 >= 0)`, `${sized} && ${size} < 0`],
];

describe("a changed condition has an example that Cedar decides differently", limits, () => {
  test.each(different)("%s", async (_name, old, next) => {
    const [before, after] = [forbidding(old), forbidding(next)];
    const proof = await prove(before, after);
    expect(proof.undecided).toEqual([]);
    expect(proof.found).not.toEqual([]);
    const engines = await Promise.all([before, after].map((files) => engineOf(files, {}, { evaluator: "cedar" })));
    for (const { example, kind } of proof.found) {
      const [one, other] = engines.map((engine) => engine.decide(parseQuery({ ...example })));
      expect(one && other && differenceOf(one, other)?.kind).toBe(kind);
    }
    for (const engine of engines) engine.release();
  });

  test("an example of an overflow is beyond the solver's multiplication", async () => {
    const { found } = await prove(
      forbidding(`${sized} && !(${size} * 4096 >= 0)`),
      forbidding(`${sized} && ${size} < 0`),
    );
    expect(found.map(({ kind }) => kind)).toEqual(["allows"]);
    const [claimed] = found.map(({ example }) => example.claimed as { readonly content_size_bytes?: number });
    expect(claimed?.content_size_bytes).toBeGreaterThanOrEqual(2 ** 51);
  });
});

test("a difference that needs entities that do not exist is neither proven nor refuted", limits, async () => {
  const [old, next] = [3, 4].map((least) => forbidding(`${rank} && context.claimed.label_set.max_rank >= ${least}`));
  const { found, undecided } = await prove(old as Files, next as Files);
  expect(found).toEqual([]);
  expect(undecided).toEqual([
    expect.stringContaining("needs entities or values that no request of this service can have"),
  ]);
});

test("other guidance is a difference, and its order is none", limits, async () => {
  const guided = (mode: string, id: string) =>
    `@handling_mode("${mode}") ${policy("permit", `${sized} && ${size} * 2 > 6`, id)}`;
  const files = (...texts: string[]): Files => ({ ...openFiles, "default/p.cedar": texts.join("") });
  const [careful, plain] = [guided("careful", "a"), policy("permit", `${sized} && ${size} > 4`, "b")];
  expect(isEqual(await prove(files(careful, plain), files(plain, careful.replace("* 2 > 6", "> 3"))))).toBe(true);
  const { found } = await prove(files(careful, plain), files(guided("quick", "a"), plain));
  expect(found.map(({ kind }) => kind)).toContain("guides");
});

test("a solver that does not end is stopped in time, and undecided", limits, async () => {
  const hanging = await listenForHanging(1);
  const does = `exec '${process.execPath}' -e 'require("node:net").connect(${hanging.port}, "127.0.0.1")'`;
  const slow = standInSolver(does);
  const proof = await prove(forbidding(`${sized} && ${size} + 1 > 9`), forbidding(`${sized} && ${size} > 8`), 10, slow);
  expect(proof.found).toEqual([]);
  expect(proof.undecided).toEqual(["protect for any other tenant: not decided within 10 s"]);
  await hanging.allEnded;
});

/** Path of a solver that says its version, and else does what the shell does here. */
function standInSolver(does: string): string {
  const path = join(folder, "solver");
  writeFileSync(path, `#!/bin/sh\n[ "$1" = --version ] && echo "a solver" && exit\n${does}\n`, { mode: 0o755 });
  return path;
}

/** What changes nothing, and what mostly does. */
const rewritings = {
  same: (one, other) => `(${other}) && (${one})`,
  negated: (one, other) => `!(!(${one}) || !(${other}))`,
  chosen: (one, other) => `if ${one} then ${other} else false`,
  narrowed: (one) => one,
  widened: (one, other) => `(${one}) || (${other})`,
} as const satisfies Record<string, (one: string, other: string) => string>;

const readable = [...conditions, ...registeredConditions, ...onBehalfOfConditions, ...attributeConditions];
/** What the service asks: texts that may not be empty are not, and no label leaves what was there ever. */
const servedQueries = anyQueries
  .filter((query) => !JSON.stringify(query).includes('""'))
  .map(({ registered: facts, ...query }): PolicyQuery => {
    if (facts === undefined) return query;
    return { ...query, registered: { ...facts, labels_ever: [...new Set([...facts.labels_ever, ...facts.labels])] } };
  });

test("proven pairs agree on random requests, and the sampled comparison finds no difference", {
  timeout: 1_200_000,
}, async () => {
  const condition = fc.constantFrom(...readable);
  const chosen = fc.record({
    one: condition,
    other: condition,
    effect: fc.constantFrom("permit" as const, "forbid" as const),
    rewriting: fc.constantFrom(...(Object.keys(rewritings) as (keyof typeof rewritings)[])),
    asked: fc.array(servedQueries, { minLength: 300, maxLength: 300 }),
  });
  const plainly = (rewriting: keyof typeof rewritings) => ({
    one: 'action == Action::"protect"',
    other: "context.claimed.content_digest_present",
    effect: "forbid" as const,
    rewriting,
    asked: [],
  });
  const seen = { equal: 0, different: 0 };
  await fc.assert(
    fc.asyncProperty(chosen, async ({ one, other, effect, rewriting, asked }) => {
      const filesOf = (text: string): Files => ({
        ...declaringFiles,
        ...(effect === "permit" && {
          "default/all.cedar": policy("permit", "context.claimed.content_digest_present", "all"),
        }),
        "default/p.cedar": policy(effect, text),
      });
      const [before, after] = [filesOf(`(${one}) && (${other})`), filesOf(rewritings[rewriting](one, other))];
      // Two conditions may exclude each other: such a policy is refused before it could be proven.
      const isPossible = await Promise.all([before, after].map(bundleOf)).then(
        () => true,
        (error) => !/policy is impossible/.test(String(error)),
      );
      fc.pre(isPossible);
      const proof = await prove(before, after);
      const { ways: changes } = compareBundles(await bundleOf(before), await bundleOf(after));
      if (!isEqual(proof)) {
        expect(["narrowed", "widened"].includes(rewriting) || proof.undecided.length > 0).toBe(true);
        seen.different += 1;
        return;
      }
      seen.equal += 1;
      expect(changes).toEqual([]);
      const engines = await Promise.all([before, after].map((files) => engineOf(files, {}, { evaluator: "cedar" })));
      for (const query of asked) {
        const [was, is] = engines.map((engine) => engine.decide(query));
        const kind = was && is && differenceOf(was, is)?.kind;
        expect(kind === "reasons" ? undefined : kind).toBeUndefined();
      }
      for (const engine of engines) engine.release();
    }),
    // A pair that is equal and one that is not: a random search may miss either.
    {
      numRuns: 12,
      endOnFailure: true,
      examples: (["same", "widened"] as const).map((rewriting): [ReturnType<typeof plainly>] => [plainly(rewriting)]),
    },
  );
  expect(
    Object.values(seen).every((count) => count > 0),
    JSON.stringify(seen),
  ).toBe(true);
});

describe("the command", limits, () => {
  for (const name of ["old", "new"]) cpSync(join(root, "policies"), join(folder, name), { recursive: true });
  writeFileSync(join(folder, "old/default/sized.cedar"), policy("forbid", `${sized} && ${size} + 1 > 9`, "sized"));
  writeFileSync(join(folder, "new/default/sized.cedar"), policy("forbid", `${sized} && ${size} > 8`, "sized"));

  const diff = async (solverProgram: string, ...options: string[]) => {
    process.env.CVC5 = solverProgram;
    const directories = [join(folder, "old"), join(folder, "new")];
    return run("policy", "diff", ...directories, "--prove", "--prover", program, ...options);
  };

  test("proves a refactoring of the sample directory", async () => {
    const { out, err, code } = await diff(solver, "--max-changes", "0");
    expect([err, code]).toEqual(["", 0]);
    expect(out).toMatch(/\nproven: equal for every request \(\d+ statements; cvc5 1\.3\.1\)\n$/);
  });
});
