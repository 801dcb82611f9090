/** Answers that wait until their callers take them: for how long, how many, and how much of them. */
import { EventEmitter } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type AnswerLimits, type OpenAnswer, OpenAnswers } from "../../../src/http/connection.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

function setup(limits: Partial<AnswerLimits> = {}) {
  const answers = new OpenAnswers({ answerTimeoutMs: 30_000, ...limits });
  const cut: string[] = [];
  /** An exchange, of whose answer so much is made and not taken. */
  const begin = (name: string, writableLength: number, writableEnded = true, address?: string) => {
    const answer = Object.assign(new EventEmitter(), { writableLength, writableEnded }) as EventEmitter & {
      -readonly [Member in keyof OpenAnswer]: OpenAnswer[Member];
    };
    const onCut = () => {
      cut.push(name);
      answer.emit("close");
    };
    answers.add(answer, onCut, address === undefined ? undefined : () => address);
    return answer;
  };
  return { answers, cut, begin };
}

test("an answer that is not read is cut off when its time is up, and never while it is being made", () => {
  const { cut, begin } = setup();
  begin("waits", 10);
  begin("is made", 0, false);
  vi.advanceTimersByTime(30_000);
  expect(cut).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["waits"]);
});

test("an answer that is read in time gets its whole time again", () => {
  const { cut, begin } = setup();
  const answer = begin("goes on", 10, false);
  vi.advanceTimersByTime(29_000);
  answer.writableLength = 0;
  vi.advanceTimersByTime(1_000);
  answer.writableLength = 10;
  vi.advanceTimersByTime(29_000);
  expect(cut).toEqual([]);
});

test("a bounded number may wait: beyond it, the longest waiting are cut off within a second", () => {
  const { cut, begin } = setup({ maxWaiting: 3 });
  for (const name of ["first", "second", "third", "fourth", "fifth"]) begin(name, 10);
  begin("is made", 0, false);
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["first", "second"]);
  vi.advanceTimersByTime(5_000);
  expect(cut).toHaveLength(2);
});

test("waiting answers hold a bounded number of bytes", () => {
  const { cut, begin } = setup({ maxWaitingBytes: 100 });
  for (const [name, sizeBytes] of [
    ["large", 60],
    ["small", 30],
    ["another", 40],
  ] as const)
    begin(name, sizeBytes);
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["large"]);
});

test("an address has a quarter of both: beyond it, its own longest waiting are cut off", () => {
  const { cut, begin } = setup({ maxWaiting: 8, maxWaitingBytes: 400 });
  begin("other", 10, true, "b");
  for (const name of ["first", "second", "third"]) begin(name, 10, true, "a");
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["first"]);
  begin("large", 90, true, "b");
  begin("larger", 90, true, "c");
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["first"]);
  begin("more", 20, true, "c");
  vi.advanceTimersByTime(1_000);
  expect(cut).toEqual(["first", "larger"]);
});
