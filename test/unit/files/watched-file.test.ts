import { beforeEach, expect, test } from "vitest";
import { WatchedFile } from "../../../src/files/watched-file.ts";
import { manualTime } from "../auth/world.ts";

const file = { text: "1", mtimeMs: 1, problem: undefined as string | undefined, reads: 0 };
const files = {
  async stat() {
    if (file.problem !== undefined) throw new Error(file.problem);
    return { mtimeMs: file.mtimeMs, size: file.text.length, ino: 7 };
  },
  async readFile() {
    file.reads += 1;
    return file.text;
  },
};
const problems: string[] = [];
const parse = (text: string) => {
  if (!/^\d+$/.test(text)) throw new Error("is no number");
  return Number(text);
};

beforeEach(() => {
  Object.assign(file, { text: "1", mtimeMs: 1, problem: undefined, reads: 0 });
  problems.length = 0;
});

async function opened() {
  const timers = manualTime();
  const live = await WatchedFile.open({ path: "/f", parse, files, timers, onProblem: (text) => problems.push(text) });
  /** Lets it look again, and waits until it has. */
  const look = async () => {
    timers.advance(2_000);
    await expect.poll(() => timers.pending()).toBe(1);
  };
  return { live, look, timers };
}

test("a file that is replaced is followed, and read only then", async () => {
  const { live, look } = await opened();
  expect([live.current, live.revision]).toEqual([1, 0]);
  await look();
  expect(file.reads).toBe(1);
  Object.assign(file, { text: "2", mtimeMs: 2 });
  await look();
  expect([live.current, live.revision, file.reads]).toEqual([2, 1, 2]);
  live.close();
});

test("one that is bad or gone changes nothing, is told once, and is followed when it is good again", async () => {
  const { live, look } = await opened();
  Object.assign(file, { text: "x", mtimeMs: 2 });
  await look();
  await look();
  file.problem = "ENOENT";
  await look();
  expect([live.current, live.revision]).toEqual([1, 0]);
  expect(problems).toEqual(["is no number", "ENOENT"]);
  Object.assign(file, { text: "3", problem: undefined });
  await look();
  expect([live.current, live.revision]).toEqual([3, 1]);
  live.close();
});

test("one that is bad at the start is refused", async () => {
  file.text = "x";
  await expect(opened()).rejects.toThrow("is no number");
});

test("one that is closed is not looked at any more", async () => {
  const { live, timers } = await opened();
  live.close();
  expect(timers.pending()).toBe(0);
});
