/** What a prover is asked about two bundles. */
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { proveEqual } from "../../../src/policy/diff/prove.ts";
import type { ProverRequest } from "../../../src/policy/diff/statements.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { type Files, memoryFileSystem, openFiles } from "./harness.ts";

async function bundleOf(files: Files): Promise<PolicyBundle> {
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem({ ...openFiles, ...files }));
  if (bundle === undefined) throw new Error("a good directory");
  return bundle;
}

/** What is asked, and what comes of it where all is answered with `equal`. */
async function asked(old: Files, next: Files) {
  let request: ProverRequest | undefined;
  const proof = await proveEqual(await bundleOf(old), await bundleOf(next), 1, async (it) => {
    request = it;
    return { solver: "a solver", answers: it.questions.map(() => ({ equal: true as const })) };
  });
  if ("missing" in proof) throw new Error("it is asked");
  return { request: request ?? { questions: [], policies: [] }, proof };
}

const forbid = (id: string, kind: string, annotation = "") =>
  `@id("${id}") ${annotation} forbid (principal, action == Action::"protect", resource) when { context.claimed.resource.kind == "${kind}" };\n`;
const files = (...policies: string[]): Files => ({ "default/p.cedar": policies.join("") });
const many = ["a", "b", "c"].map((kind) => forbid(kind, kind));

test("another order, id or layout is nothing to ask about", async () => {
  const renamed = forbid("other", "a").replace("when", "\n  when");
  const { request, proof } = await asked(files(...many), files(...many.slice(1), renamed));
  expect(request.questions).toEqual([]);
  expect(proof).toMatchObject({ proven: proof.statements, undecided: [] });
});

test("it is asked about the action that differs alone, for whom a permit counts", async () => {
  const { request } = await asked(files(...many), files(...many.slice(1)));
  expect(request.questions.map(({ action }) => action)).toEqual(["protect"]);
});

test("what is on both sides is left out of what is sufficient, and not of the statements", async () => {
  const { request } = await asked(files(...many), files(...many.slice(1), forbid("d", "d")));
  const textsOf = (indices: readonly number[]) =>
    indices.map((index) => /kind == "(.)"/.exec(request.policies[index] ?? "")?.[1] ?? "all").sort();
  const [question] = request.questions;
  expect(question?.statements.map(({ evaluable }) => textsOf(evaluable))).toEqual([
    ["a", "all", "b", "c"],
    ["all", "b", "c", "d"],
  ]);
  // Whether one applies, and whether it can be evaluated.
  expect(question?.sufficient.map((pair) => pair.map(({ evaluable }) => textsOf(evaluable)))).toEqual([
    [["a"], ["d"]],
    [["a"], ["d"]],
  ]);
  expect(question?.sufficient.map(([{ holds }]) => Object.keys(holds))).toEqual([["any"], ["all"]]);
});

test("a policy that permits what it forbade can be evaluated as before, and applies to other lists", async () => {
  const permitted = forbid("a", "a").replace("forbid", "permit");
  const { request } = await asked(files(...many), files(permitted, ...many.slice(1)));
  expect(request.questions[0]?.sufficient.map((pair) => pair.map(({ evaluable }) => evaluable.length))).toEqual([
    [0, 1],
    [1, 0],
  ]);
});

test("where all is other, nothing smaller is known", async () => {
  const all = { "platform/all.cedar": permitWhen("a"), "default/all.cedar": permitWhen("b") };
  const { request } = await asked({}, all);
  expect(request.questions.every(({ sufficient }) => sufficient.length === 0)).toBe(true);
});

function permitWhen(kind: string): string {
  return forbid("all", kind).replace("forbid", "permit");
}

test("guidance that is said alone is asked about with what decides it", async () => {
  const { request, proof } = await asked(
    files(...many, forbid("g", "g", '@warning("w")')),
    files(...many, forbid("g", "h", '@warning("w")')),
  );
  // For another principal it follows from a denial too.
  expect(request.questions.map(({ action }) => action)).toEqual(["protect", "protect", "protect"]);
  expect(proof).toMatchObject({ found: [], undecided: [] });
});
