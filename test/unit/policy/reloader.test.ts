import { afterEach, beforeEach, expect, test } from "vitest";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { checkBundleInThread } from "../../../src/policy/check/check-thread.ts";
import type { CompiledEngine } from "../../../src/policy/engine/engine.ts";
import { PolicyInForce, type ReloadEvent } from "../../../src/policy/engine/policy-in-force.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { readPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { publishedSchema } from "../../../src/policy/model/schema.ts";
import { type ManualTime, manualTime } from "../auth/world.ts";
import { ask, engineOf, type Files, memoryFileSystem, openFiles, permitAll } from "./harness.ts";

const closed: Files = { ...openFiles, "default/all.cedar": permitAll.replace("permit", "forbid") };
const bad: Files = { ...openFiles, "default/all.cedar": "permit (principal" };

let files: Files;
let first: CompiledEngine;
let policy: PolicyInForce;
let events: ReloadEvent[];
let kept: string[];
let faults: { keep?: Error; check?: Error };
let timers: ManualTime;

beforeEach(async () => {
  files = openFiles;
  events = [];
  kept = [];
  faults = {};
  timers = manualTime();
  const read = () => readPolicyDirectory("/policies", memoryFileSystem(files));
  first = await engineOf(files, {}, { evaluator: "cedar" });
  policy = new PolicyInForce(first, {
    read,
    async check(bundle) {
      if (faults.check !== undefined) throw faults.check;
      return checkBundle(bundle);
    },
    known: await read(),
    pollMs: 1_000,
    timers,
    onEvent: (event) => void events.push(event),
  });
  await policy.keepIn({
    async keepPolicyRevision(revision) {
      if (faults.keep !== undefined) throw faults.keep;
      // A further one must not decide yet.
      expect(policy.revision === revision).toBe(kept.length === 0);
      kept.push(revision);
    },
  });
  policy.directory.start();
  await expect.poll(() => timers.pending()).toBe(1);
});

afterEach(() => policy.directory.stop());

/** Lets the time to the next look pass, and waits until that look is over. */
async function look(): Promise<void> {
  timers.advance(1_000);
  await expect.poll(() => timers.pending()).toBe(1);
}

const allows = () => policy.decide(ask("protect")).allow;

test("the refusal ends when the directory equals the current one again, or is valid", async () => {
  const before = policy.revision;
  files = bad;
  await policy.directory.reload();
  files = openFiles;
  await policy.directory.reload();
  expect(policy.status).toEqual({ newest: "in_force" });
  expect(events.at(-1)).toEqual({ type: "loaded", revision: before });
  files = bad;
  await policy.directory.reload();
  files = closed;
  await policy.directory.reload();
  expect(policy.status).toEqual({ newest: "in_force" });
  expect(allows()).toBe(false);
});

test.each(["keep", "check"] as const)("if it cannot %s, nothing changes, and it is retried", async (step) => {
  faults[step] = new Error("not now");
  files = closed;
  await look();
  await look();
  await look();
  expect(allows()).toBe(true);
  expect(events).toEqual([{ type: "failed", error: faults[step] }]);
  expect(policy.status).toEqual({ newest: "failed" });
  delete faults[step];
  await look();
  expect(allows()).toBe(false);
  expect(policy.status).toEqual({ newest: "in_force" });
});

test("the failure ends when the change that could not be kept is taken back", async () => {
  const { revision } = policy;
  faults.keep = new Error("not now");
  files = closed;
  await policy.directory.reload();
  files = openFiles;
  await policy.directory.reload();
  expect(policy.status).toEqual({ newest: "in_force" });
  expect(events).toEqual([
    { type: "failed", error: faults.keep },
    { type: "loaded", revision },
  ]);
});

test("the replaced engine frees Cedar's memory", async () => {
  files = closed;
  await policy.directory.reload();
  expect(first.decide(ask("protect")).reasons).toContain("platform/evaluation-error");
});

test("a separate thread decides as this one does", async () => {
  // More policies than are handed over together.
  const number = (n: number) => permitAll.replace(/@id\("[^"]*"\)/, `@id("number-${n}")`);
  const many: Files = {
    ...openFiles,
    "default/all.cedar": Array.from({ length: 250 }, (_, n) => number(n)).join("\n"),
  };
  // More text than the thread starts with.
  const long: Files = {
    "manifest.yaml": 'platform: platform\ntenants: { one: first, two: second, "*": third }\n',
    ...Object.fromEntries(
      ["platform", "first", "second", "third"].map((set) => [
        `${set}/all.cedar`,
        `${permitAll}\n// ${set.repeat(100_000)}`,
      ]),
    ),
  };
  for (const some of [openFiles, bad, closed, many, long]) {
    const { bundle } = await readPolicyDirectory("/policies", memoryFileSystem(some));
    expect(await checkBundleInThread(bundle as PolicyBundle)).toEqual(checkBundle(bundle as PolicyBundle));
  }
});

test("a failing thread is a rejection", async () => {
  await expect(checkBundleInThread({ schema: publishedSchema } as PolicyBundle)).rejects.toThrow();
});
