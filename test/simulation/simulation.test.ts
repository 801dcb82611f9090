/** A few seconds of simulation, in a process for itself: it takes the place of timers, threads and SQLite. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mutations } from "./mutations.ts";

function simulate(...options: readonly string[]) {
  const program = new URL("./simulate.ts", import.meta.url).pathname;
  return spawnSync(process.execPath, ["--no-warnings", program, ...options], { encoding: "utf8" });
}

test("finds no violation in a few seeds", () => {
  const { status, stdout } = simulate("--seeds", "6", "--steps", "1000");
  expect(stdout).toContain(" 0 violations");
  expect(status).toBe(0);
});

test("runs a seed the same way each time", () => {
  const [first, second] = [1, 2].map(() => simulate("--seed", "27", "--verbose").stdout.split("\n").slice(0, -2));
  expect(first?.length).toBeGreaterThan(20);
  expect(second).toEqual(first);
});

test("finds a mutation, and names its step", () => {
  const mutation = ["--mutation", "forget the anchor after an append"];
  const { status, stdout } = simulate("--seeds", "20", "--steps", "100", ...mutation);
  expect(status).toBe(1);
  expect(stdout).toMatch(/^seed \d+, step \d+: .* the anchor has noted 0\n/);
});

test.each(mutations.map((mutation) => [mutation.name, mutation] as const))(
  "%s: its place exists once",
  (_, { file, text }) => {
    expect(readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8").split(text)).toHaveLength(2);
  },
);
