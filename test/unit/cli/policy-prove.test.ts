/** `policy diff --prove`, with a stand-in for the prover: what the command makes of its answers. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { draws } from "../../harness/draws.ts";
import { listenForHanging } from "../../harness/hanging.ts";
import { type ProverBehaviour, standInProver } from "../../harness/prover.ts";
import { directory, eachInDirectory, fileOf, policiesOf, refused, run as runCommand } from "./surroundings.ts";

eachInDirectory();
beforeEach(() => {
  for (const name of ["old", "new"]) policiesOf(name);
});
afterEach(() => {
  delete process.env.PROVER;
});

const write = (of: string, file: string, policy: string) => fileOf(`${of}/set/${file}`, policy);
const forbid = (condition: string) => `@id("none") forbid (principal, action, resource) when { ${condition} };`;
/** What the search does not decide. */
function calculate(old: string, next: string): void {
  write("old", "none.cedar", forbid(`context.claimed has content_size_bytes && ${old}`));
  write("new", "none.cedar", forbid(`context.claimed has content_size_bytes && ${next}`));
}
const size = "context.claimed.content_size_bytes";

const diff = () => ["policy", "diff", join(directory, "old"), join(directory, "new")];
const run = (...options: string[]) => runCommand(...diff(), ...options);

function prove(behaviour: ProverBehaviour, ...options: string[]) {
  process.env.PROVER = JSON.stringify(behaviour);
  return run("--prove", "--prover", standInProver, ...options);
}

const head = { cedar: "4.13.0", solver: "a solver" };
const equal = { equal: true };
const claimed = {
  workload: { application: "a" },
  resource: { kind: "k" },
  labels: [],
  attributes: { __entity: { type: "Attributes", id: "claimed" } },
  content_digest_present: false,
};
const caller = { tenant: "t", principal_id: "p", subject: "s", scopes: [], auth_source: "bearer_token" };
const example = (more: object) => ({
  principal: { __entity: { type: "Principal", id: "t/p" } },
  context: { claimed: { ...claimed, ...more } },
  entities: [
    { uid: { type: "Principal", id: "t/p" }, attrs: caller, parents: [] },
    { uid: { type: "Attributes", id: "claimed" }, attrs: {}, parents: [], tags: {} },
  ],
});

test("a proven pair is equal for every request", async () => {
  calculate(`${size} + 1 > 9`, `${size} > 8`);
  expect(await run("--max-changes", "0")).toMatchObject({ code: 3 });
  const { out, err, code } = await prove({ head, each: equal }, "--max-changes", "0");
  expect([err, code]).toEqual(["", 0]);
  expect(out).toContain("proven: equal for every request (12 statements; a solver)\n");
  const json = JSON.parse((await prove({ head, each: equal }, "--json")).out);
  expect(json).toMatchObject({ ok: true, changes: 0, exhaustive: true });
  expect(json.proof).toEqual({ equal: true, solver: "a solver", proven: 12, statements: 12, undecided: [] });
});

test("a solver's example that the search did not find is a change, and counts", async () => {
  calculate(`${size} * ${size} > 8`, `${size} * ${size} > 9`);
  const each = { counterexample: example({ content_size_bytes: 3, purpose: "x" }) };
  await refused(prove({ head, each }), "1 difference found\n");
  const found = JSON.parse((await prove({ head, each }, "--json")).out).ways.find(
    ({ found_by }: { found_by: string }) => found_by === "solver",
  );
  // What makes no difference is not in it.
  expect(found).toMatchObject({
    kind: "allows",
    tenants: ["any-other-tenant"],
    example: { tenant: "any-other-tenant", principal: {}, claimed: { content_size_bytes: 3 } },
  });
  expect(found.example.claimed).not.toHaveProperty("purpose");
  await refused(prove({ head, each }, "--max-changes", "0"), "1 difference found\n");
});

/** Of the statements, half are about another principal, for whom no permit here counts: those hold by their form. */
test("exits with 3 if anything is neither proven nor refuted, whatever is allowed", async () => {
  calculate(`${size} + 1 > 9`, `${size} > 8`);
  const { out, err, code } = await prove({ head, each: { undecided: "too hard" } });
  expect([err, code]).toEqual(["not everything was proven or refuted\n", 3]);
  expect(out).toContain(
    "proven: 6 of 12 statements (a solver)\nnot decided:\n  access for any other tenant: too hard\n",
  );
  expect(await prove({ head, text: "?\n" }, "--max-changes", "9")).toMatchObject({ code: 3 });
  const json = JSON.parse((await prove({ head, code: 9 }, "--json")).out);
  expect(json).toMatchObject({ ok: false, exhaustive: false, problems: ["not everything was proven or refuted"] });
  expect(json.proof).toMatchObject({ equal: false, proven: 6 });
  expect(json.proof.undecided[0]).toMatch(/^access for any other tenant: .* ended with 9$/);
});

test("any counterexample is rejected if nothing differs", async () => {
  calculate(`${size} + 1 > 9`, `${size} > 8`);
  const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>;
  const part = (value: unknown) => fc.oneof(fc.constant(value), json);
  const counterexamples = fc.record({
    principal: part(example({}).principal),
    context: fc.oneof(json, fc.record({ claimed: fc.oneof(json, fc.record({ labels: json, attributes: json })) })),
    entities: fc.array(
      fc.oneof(json, fc.record({ uid: part({ type: "Principal", id: "t/p" }), attrs: part(caller), tags: json })),
    ),
  });
  await fc.assert(
    fc.asyncProperty(counterexamples, async (counterexample) => {
      const { proof, changes } = JSON.parse((await prove({ head, each: { counterexample } }, "--json")).out);
      expect([changes, proof.proven, proof.undecided.length]).toEqual([0, 6, 6]);
      expect(proof.undecided[0]).toContain("needs entities or values that no request of this service can have");
    }),
    { numRuns: draws(3, 15), examples: [[example({ content_size_bytes: 3 })]] },
  );
});

test("a proof that an example refutes is not believed", async () => {
  write("new", "none.cedar", forbid("context.claimed has purpose"));
  const { out, code } = await prove({ head, each: equal });
  expect(code).toBe(1);
  expect(out).toContain("not decided:\n  the prover says that all is equal, which the examples above refute\n");
});

test("exits with 4 if the prover or the solver is missing, and the search result stays", async () => {
  write("new", "none.cedar", forbid("context.claimed has purpose"));
  const nowhere = await run("--prove", "--prover", join(directory, "prover"), "--max-changes", "0");
  expect(nowhere).toMatchObject({ code: 4, out: expect.stringContaining("\ndenies: ") });
  expect(nowhere.err).toMatch(
    /^--prove: .*\/prover cannot be started \(.*ENOENT\): cargo install --locked --path tools\/policy-prover\n$/,
  );
  const unsolved = await prove({ head: { cedar: "4.13.0", problem: "cvc5: No such file" } }, "--json");
  expect(unsolved.code).toBe(4);
  const { ok, proof, problems } = JSON.parse(unsolved.out);
  expect([ok, proof, problems]).toEqual([
    false,
    undefined,
    [expect.stringMatching(/^--prove: the solver cannot be used \(cvc5: No such file\): install cvc5 1\.3\.1, or /)],
  ]);
});

test("parts that are compared otherwise are not proven, and reported", async () => {
  fileOf(
    "new/manifest.yaml",
    'platform: set\ntenants: { "*": set }\nguidance: { handling_mode: careful }\ncaller_attributes: { a: { type: text } }\n',
  );
  const { out, code } = await prove({ head, each: equal });
  expect(code).toBe(1);
  expect(out).toContain("\n  the declared attributes of callers differ\n");
  expect(out).toContain("\n  the directories' schemas differ, and a proof needs the same one\n");
  expect(out).toContain("\n  the manifests differ in guidance\n");
});

test("options of a proof need --prove", async () => {
  await refused(run("--prover", "x"), "--prover: is about --prove\n", 2);
  await refused(run("--solver-timeout", "5"), "--solver-timeout: is about --prove\n", 2);
  for (const wrong of ["0", "86401", "-1", "1.5", "soon"])
    await refused(run("--prove", "--solver-timeout", wrong), "--solver-timeout", 2);
});

test.each(["SIGINT", "SIGTERM"] as const)("%s ends the prover and the solver with the command", async (signal) => {
  calculate(`${size} + 1 > 9`, `${size} > 8`);
  const hanging = await listenForHanging(2);
  const program = join(import.meta.dirname, "../../../src/cli/cli.ts");
  const child = spawn(process.execPath, [program, ...diff(), "--prove", "--prover", standInProver], {
    stdio: "ignore",
    env: { ...process.env, PROVER: JSON.stringify({ head, hangsAt: hanging.port }) },
  });
  const closed = once(child, "close");
  await hanging.allRunning;
  child.kill(signal);
  expect(await closed).toEqual([null, signal]);
  await hanging.allEnded;
});
