/** Client packages against the conformance suite. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCases } from "../../clients/conformance/suite.ts";
import { root } from "./clients-deployment.ts";

/** How each language's driver is built and started. */
const drivers: readonly {
  readonly language: string;
  readonly build: readonly string[];
  readonly start: readonly string[];
}[] = [
  {
    language: "typescript over gRPC",
    build: [process.execPath, join(root, "clients/typescript/build.ts")],
    start: [process.execPath, join(root, "clients/typescript/conformance/driver.ts")],
  },
];

describe.each(drivers.map((driver) => ({ ...driver })))("$language", ({ build, start }) => {
  test("passes every case", { timeout: 600_000 }, async () => {
    const [command = "", ...args] = build;
    expect(spawnSync(command, args, { cwd: root, encoding: "utf8" })).toMatchObject({ status: 0 });
    const results = await runCases(start);
    expect(results.filter(({ problem }) => problem !== undefined)).toEqual([]);
    expect(results.length).toBeGreaterThan(90);
  });
});
