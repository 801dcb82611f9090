import { afterEach, beforeEach, expect, test } from "vitest";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { checkBundleInThread } from "../../../src/policy/check/check-thread.ts";
import { PolicyHolder } from "../../../src/policy/engine/holder.ts";
import { PolicyReloader, type ReloadEvent } from "../../../src/policy/engine/reloader.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { readPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { describeProblem } from "../../../src/policy/model/problem.ts";
import { publishedSchema } from "../../../src/policy/model/schema.ts";
import { ask, engineOf, type Files, memoryFileSystem, openFiles, permitAll } from "./harness.ts";
import { handTimers } from "./timers.ts";

const closed: Files = { ...openFiles, "default/all.cedar": permitAll.replace("permit", "forbid") };
const bad: Files = { ...openFiles, "default/all.cedar": "permit (principal" };

let files: Files;
let holder: PolicyHolder;
let reloader: PolicyReloader;
let events: ReloadEvent[];
let kept: string[];
let faults: { keep?: Error; check?: Error };
let timers: ReturnType<typeof handTimers>;

beforeEach(async () => {
  files = openFiles;
  events = [];
  kept = [];
  faults = {};
  timers = handTimers();
  const read = () => readPolicyDirectory("/policies", memoryFileSystem(files));
  holder = new PolicyHolder(await engineOf(files));
  reloader = new PolicyReloader(holder, {
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
  await reloader.keepIn({
    async keepPolicyRevision(revision) {
      if (faults.keep !== undefined) throw faults.keep;
      // A further one must not decide yet.
      expect(holder.revision === revision).toBe(kept.length === 0);
      kept.push(revision);
    },
  });
  reloader.start();
  await timers.armed();
});

afterEach(async () => {
  await reloader.stop();
  holder.release();
});

/** Lets the time to the next look pass, and waits until that look is over. */
async function look(): Promise<void> {
  timers.fire(1_000);
  await timers.armed();
}

const allows = () => holder.decide(ask("protect")).allow;

test("a changed directory takes effect after two equal reads", async () => {
  const before = holder.revision;
  files = closed;
  await look();
  expect([allows(), holder.revision]).toEqual([true, before]);
  await look();
  expect(allows()).toBe(false);
  expect(holder.revision).not.toBe(before);
  expect(events).toEqual([{ type: "loaded", disagreements: new Map(), revision: holder.revision }]);
  expect(kept).toEqual([before, holder.revision]);
});

test("a copy in progress is waited for", async () => {
  for (const count of [1, 2, 3]) {
    const added = Array.from({ length: count }, (_, index) => [`default/${index}.cedar`, `// ${index}`]);
    files = { ...closed, ...Object.fromEntries(added) };
    await look();
  }
  expect(events).toEqual([]);
  await look();
  expect(events).toHaveLength(1);
});

test("a bad directory is refused once, and the current one stays", async () => {
  files = bad;
  await look();
  await look();
  await look();
  expect(allows()).toBe(true);
  expect(reloader.status.newest).toBe("refused");
  expect(reloader.status.problems?.map(describeProblem)).toEqual([
    expect.stringMatching(/^default\/all\.cedar:1: unexpected end of input/),
  ]);
  expect(events).toEqual([{ type: "refused", problems: reloader.status.problems }]);
  expect(kept).toEqual([holder.revision]);
});

test("the refusal ends when the directory equals the current one again, or is valid", async () => {
  const before = holder.revision;
  files = bad;
  await reloader.reload();
  files = openFiles;
  await reloader.reload();
  expect(reloader.status).toEqual({ newest: "in_force" });
  expect(events.at(-1)).toEqual({ type: "loaded", revision: before });
  files = bad;
  await reloader.reload();
  files = closed;
  await reloader.reload();
  expect(reloader.status).toEqual({ newest: "in_force" });
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
  expect(reloader.status).toEqual({ newest: "failed" });
  delete faults[step];
  await look();
  expect(allows()).toBe(false);
  expect(reloader.status).toEqual({ newest: "in_force" });
});

test("nothing is loaded after the end", async () => {
  await reloader.stop();
  files = closed;
  expect(timers.waiting.size).toBe(0);
  await reloader.reload();
  expect(allows()).toBe(true);
});

test("the replaced engine frees its memory", async () => {
  const first = await engineOf(openFiles);
  const second = new PolicyHolder(first);
  expect(first.decide(ask("protect")).allow).toBe(true);
  second.replace(await engineOf(closed));
  expect(first.decide(ask("protect")).reasons).toContain("platform/evaluation-error");
  second.release();
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
