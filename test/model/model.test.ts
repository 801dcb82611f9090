/** The model of the append protocol, and the simulation's traces against it. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { modelFile, quint, replay, type TraceLine } from "./trace.ts";

const folder = folderForFile("model");
const invariants = ["--invariants", "nothingLost", "exactlyOnce", "oneHistory"];
const bounds = ["--max-samples", "200", "--max-steps", "25", "--verbosity", "1"];

function traceOfSeed(seed: number): readonly TraceLine[] {
  const file = join(folder, "trace");
  const program = new URL("../simulation/simulate.ts", import.meta.url).pathname;
  const options = ["--no-warnings", program, "--seed", String(seed), "--steps", "600", "--trace", file];
  const { status, stdout } = spawnSync(process.execPath, options, { encoding: "utf8" });
  expect(status, stdout).toBe(0);
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as TraceLine);
}

test("the model keeps its invariants", () => {
  const { isFine, output } = quint("run", modelFile, ...bounds, ...invariants, "behindAnchor");
  expect(output).toContain("No violation found");
  expect(isFine).toBe(true);
});

test("the model without an anchor loses acknowledged records", () => {
  const lost = ["--invariants", "nothingLost"];
  const { isFine, output } = quint("run", modelFile, ...bounds, "--step", "mistakenStep", ...lost);
  expect(isFine).toBe(false);
  expect(output).toContain("Found an issue");
});

test.for([1, 5])("the model allows what the simulation does with seed %i", (seed) => {
  const lines = traceOfSeed(seed);
  expect(lines.length).toBeGreaterThan(50);
  const { isFine, output } = replay(lines);
  expect(output).not.toContain("failed");
  expect(isFine).toBe(true);
});

test("the model refuses a trace with an answer before its anchor, or a repeated record", () => {
  const lines = traceOfSeed(1).slice(0, 40);
  const at = lines.findIndex(({ action }) => action === "advance");
  const early: TraceLine = {
    step: 0,
    action: "answer",
    leaf: 0,
    tree: lines[0]?.size ?? 0,
    size: lines[0]?.size ?? 0,
    anchor: 0,
  };
  expect(replay(lines).isFine).toBe(true);
  expect(replay([...lines.slice(0, at), early, ...lines.slice(at)]).isFine).toBe(false);
  const first = lines.slice(0, 1);
  const again = first.map((line) => ({ ...line, size: line.size + (line.records?.length ?? 0) }));
  expect(replay([...first, ...again]).isFine).toBe(false);
});
