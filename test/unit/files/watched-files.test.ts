import { beforeEach, expect, onTestFinished, test } from "vitest";
import { WatchedFiles } from "../../../src/files/watched-files.ts";
import { manualTime } from "../auth/world.ts";

interface TestFile {
  text: string;
  problem: string | undefined;
}

const fresh = (): TestFile => ({ text: "1", problem: undefined });
const disk: Record<string, TestFile> = {};
const fileAt = (path: string) => disk[path] as TestFile;
const files = {
  async stat(path: string) {
    const { text, problem } = fileAt(path);
    if (problem !== undefined) throw new Error(problem);
    return { mode: 0o100600, isFile: () => text !== "pipe" };
  },
  readFile: async (path: string) => fileAt(path).text,
};
const said: string[] = [];
const put = (path: string, text: string) => {
  Object.assign(fileAt(path), { text, problem: undefined });
};
const putBoth = (text: string) => {
  for (const path of ["/a", "/b"]) put(path, text);
};

beforeEach(() => {
  for (const path of ["/a", "/b"]) disk[path] = fresh();
  said.length = 0;
});

/** Two files are good together where they are the same number. */
async function opened(onChange: (content: number) => Promise<void> | void = () => {}) {
  const timers = manualTime();
  const live = await WatchedFiles.open<number>({
    paths: ["/a", "/b"],
    parse([first, second]) {
      if (!/^\d+$/.test(first?.text ?? "")) throw new Error("is no number");
      if (first?.text !== second?.text) throw new Error("are two");
      return Number(first?.text);
    },
    files,
    timers,
    onChange,
    onProblem: (problem) => said.push(problem),
    onRecovered: () => said.push("recovered"),
  });
  onTestFinished(() => live.close());
  /** Lets it look again after each of these times, and waits until it has. */
  const look = async (...times: readonly number[]) => {
    for (const ms of times) {
      timers.advance(ms);
      await expect.poll(() => timers.pending()).toBe(1);
    }
  };
  return { live, look, timers };
}

test("replaced files are applied once they stay unchanged", async () => {
  const { live, look } = await opened();
  expect([live.current, live.revision, live.texts]).toEqual([1, 0, ["1", "1"]]);
  putBoth("2");
  await look(2_000);
  expect(live.current).toBe(1);
  await look(250);
  expect([live.current, live.revision, live.texts]).toEqual([2, 1, ["2", "2"]]);
});

test("files that change one after the other are applied together, without a report in between", async () => {
  const { live, look } = await opened();
  put("/a", "2");
  await look(2_000);
  put("/b", "2");
  await look(250);
  expect(live.current).toBe(1);
  await look(250);
  expect([live.current, said]).toEqual([2, []]);
  put("/a", "3");
  await look(2_000, 250);
  put("/b", "3");
  await look(2_000, 250);
  expect([live.current, said]).toEqual([3, []]);
});

test("a bad or missing file changes nothing, is reported once, and applied when it is valid again", async () => {
  const { live, look } = await opened();
  put("/a", "x");
  await look(2_000, 250, 2_000, 2_000);
  expect(said).toEqual(["is no number"]);
  fileAt("/a").problem = "ENOENT";
  await look(2_000, 250, 2_000, 2_000);
  expect([live.current, live.revision, said]).toEqual([1, 0, ["is no number", "ENOENT"]]);
  putBoth("3");
  await look(2_000, 250);
  expect([live.current, live.revision, said.at(-1)]).toEqual([3, 1, "recovered"]);
});

test("content equal to the current one is no change, and ends a problem", async () => {
  const { live, look } = await opened();
  put("/a", "x");
  await live.reload();
  expect(said).toEqual(["is no number"]);
  put("/a", "1");
  await look(2_000, 250);
  expect([live.revision, said]).toEqual([0, ["is no number", "recovered"]]);
});

test("a file that changes while it is read is read again", async () => {
  const { live, look } = await opened();
  const { readFile } = files;
  putBoth("2");
  await look(2_000);
  files.readFile = async (path) => {
    if (path === "/b") {
      files.readFile = readFile;
      putBoth("3");
    }
    return readFile(path);
  };
  await look(250);
  expect(live.current).toBe(1);
  await look(250, 250);
  expect([live.current, live.revision]).toEqual([3, 1]);
});

test("content that could not be applied is retried", async () => {
  const attempts: number[] = [];
  const { live, look } = await opened(async (content) => {
    attempts.push(content);
    if (attempts.length < 3) throw new Error("not now");
  });
  putBoth("2");
  await look(2_000, 250, 2_000);
  expect([live.current, said]).toEqual([1, ["not now"]]);
  await look(2_000);
  expect([live.current, live.revision, attempts]).toEqual([2, 1, [2, 2, 2]]);
});

test("a closed watcher reads no files", async () => {
  const { live, timers } = await opened();
  live.close();
  expect(timers.pending()).toBe(0);
  putBoth("2");
  await live.reload();
  expect(live.current).toBe(1);
});
