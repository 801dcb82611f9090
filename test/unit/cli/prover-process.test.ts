/** A prover is a foreign program: nothing that it does is taken for a proof but a whole answer. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { askProver, type ProverOptions } from "../../../src/cli/policy/prover-process.ts";
import type { ProverRequest } from "../../../src/policy/diff/statements.ts";
import { folderForFile } from "../../harness/folder.ts";
import { listenForHanging } from "../../harness/hanging.ts";
import { type ProverBehaviour, standInProver } from "../../harness/prover.ts";

afterEach(() => {
  delete process.env.PROVER;
});

const head = { cedar: "4.13.0", solver: "a solver" };
const equal = { equal: true };
const never = { evaluable: [], holds: { any: [] } };
const question = { action: "protect", assuming: "true", statements: [never, never], sufficient: [] } as const;
const request: ProverRequest = { schema: "", policies: [], timeout_ms: 1, questions: [question, question] };

function ask(behaviour: ProverBehaviour, options: Partial<ProverOptions> = {}) {
  process.env.PROVER = JSON.stringify(behaviour);
  return askProver(request, { program: standInProver, onAnswer: () => {}, ...options });
}

const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join("");
const example = { principal: { type: "Principal", id: "p" }, context: {}, entities: [] };

test("a complete answer is accepted", async () => {
  const counterexample = { counterexample: example };
  const seen: number[] = [];
  const asked = await ask(
    { head, text: lines(equal, counterexample), error: "a warning" },
    { onAnswer: (answered) => seen.push(answered) },
  );
  expect(asked).toEqual({ solver: "a solver", answers: [equal, counterexample] });
  expect(seen).toEqual([1, 2]);
});

/** What it does, and why nothing is decided then. */
const undecided: readonly (readonly [string, ProverBehaviour, string])[] = [
  ["dies before it answers", { head, code: 7 }, "ended with 7"],
  ["dies after the last answer", { head, each: equal, code: 3, error: "one\nthe last\n" }, "ended with 3 (the last)"],
  ["answers too little", { head, text: lines(equal) }, "does not answer"],
  ["answers too much", { head, text: lines(equal, equal, equal) }, "gives an invalid answer"],
  ["says more after its answer", { head, each: equal, text: "bye" }, "broke off its answer"],
  ["breaks off", { head, text: `${lines(equal)}{"equal":tr` }, "broke off its answer"],
  ["writes garbage", { head, text: "\u0000\uffff\n" }, "gives an invalid answer"],
  ["writes an empty line", { head, text: `\n${lines(equal, equal)}` }, "gives an invalid answer"],
  ["says that they are not equal", { head, each: { equal: false } }, "gives an invalid answer"],
  ["says two things", { head, each: { equal: true, undecided: "x" } }, "gives an invalid answer"],
  ["says something else", { head, each: { proven: true } }, "gives an invalid answer"],
  ["says nothing", { head, each: {} }, "gives an invalid answer"],
  ["answers with a list", { head, each: [equal] }, "gives an invalid answer"],
  ["answers with a text", { head, each: "equal" }, "gives an invalid answer"],
  ["gives an example that is none", { head, each: { counterexample: [] } }, "gives an invalid answer"],
  ["gives an example without entities", { head, each: { counterexample: { context: {} } } }, "gives an invalid answer"],
  ["writes a line without end", { head, padding: 17 * 1024 * 1024 }, "gives an invalid answer"],
];

test.each(undecided)("nothing is proven by a prover that %s", async (_name, behaviour, why) => {
  const reason = { undecided: expect.stringContaining(`prover.ts ${why}`) };
  expect(await ask(behaviour)).toEqual({ solver: "a solver", answers: [reason, reason] });
});

test("refuted and undecided parts stay so if a prover dies", async () => {
  const answers = [{ counterexample: example }, { undecided: "too hard" }];
  expect(await ask({ head, text: lines(...answers), code: 1 })).toEqual({ solver: "a solver", answers });
});

const missing: readonly (readonly [string, ProverBehaviour, string])[] = [
  [
    "dies at once",
    { isDeaf: true, code: 2, error: "no such library\n" },
    "ended with 2 (no such library): cargo install",
  ],
  ["ends at once", { isDeaf: true }, "does not answer: cargo install"],
  ["answers what was not asked", { text: lines(equal) }, "gives an invalid answer: cargo install"],
  ["says nothing about itself", { head: {} }, "gives an invalid answer: cargo install"],
  ["has another Cedar", { head: { ...head, cedar: "4.12.0" }, each: equal }, "is of Cedar 4.12.0, policies are"],
  [
    "has no solver",
    { head: { cedar: "4.13.0", problem: "cvc5: gone" } },
    "the solver cannot be used (cvc5: gone): install",
  ],
];

test.each(missing)("a prover is missing that %s", async (_name, behaviour, why) => {
  expect(await ask(behaviour)).toEqual({ missing: expect.stringContaining(why) });
});

describe("a program that cannot be started is reported", () => {
  const folder = folderForFile("prover");
  writeFileSync(join(folder, "text"), "text", { mode: 0o600 });

  test.each([
    ["that is not there", "nowhere", "ENOENT"],
    ["that is a folder", "", "EACCES"],
    ["that may not be run", "text", "EACCES"],
    ["without a name", undefined, "cannot be empty"],
    ["whose name is none", "\u0000", "null bytes"],
  ])("%s", async (_name, file, why) => {
    const program = file === undefined ? "" : join(folder, file);
    const said = new RegExp(`cannot be started \\(.*${why}.*\\): cargo install`);
    expect(await ask({}, { program })).toEqual({ missing: expect.stringMatching(said) });
  });
});

describe("a prover that never ends is stopped, with its solver", () => {
  test("when its time is over", async () => {
    const hanging = await listenForHanging(2);
    const asked = ask({ head, text: lines(equal), hangsAt: hanging.port }, { graceMs: 3_000 });
    await hanging.allRunning;
    const late = { undecided: expect.stringMatching(/does not answer within 3.001 s$/) };
    expect(await asked).toEqual({ solver: "a solver", answers: [late, late] });
    await hanging.allEnded;
  });

  test("if its caller has cancelled", async () => {
    const hanging = await listenForHanging(2);
    const controller = new AbortController();
    const asked = ask({ head, hangsAt: hanging.port }, { signal: controller.signal });
    await hanging.allRunning;
    controller.abort();
    const interrupted = { undecided: expect.stringContaining("was interrupted") };
    expect(await asked).toEqual({ solver: "a solver", answers: [interrupted, interrupted] });
    await hanging.allEnded;
    expect(await ask({ head, each: equal }, { signal: controller.signal })).toMatchObject({
      missing: expect.stringContaining("was interrupted"),
    });
  });

  test("when the prover is killed, and its solver is not", async () => {
    const hanging = await listenForHanging(2);
    const killed = { undecided: expect.stringContaining("ended with SIGKILL") };
    const asked = await ask({ head, hangsAt: hanging.port, isKilled: true });
    expect(asked).toEqual({ solver: "a solver", answers: [killed, killed] });
    await hanging.allEnded;
  });
});
