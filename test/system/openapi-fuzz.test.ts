/** Schemathesis reads the document and looks for answers that it does not have. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { installPythonTools, type PythonTools } from "../harness/python.ts";

/**
 * No JSON Schema can say that one member is the digest of another: a registration whose parts do not belong together
 * is refused although every part is good.
 */
const configuration = `
[[operations]]
include-path = "/v1/sdk/artifact-register"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "409", "429"]
`;

let gateway: Gateway;
let tools: PythonTools;

beforeAll(async () => {
  [gateway, tools] = await Promise.all([startGateway(), installPythonTools(["schemathesis==4.32.5"])]);
  await writeFile(join(tools.folder, "schemathesis.toml"), configuration);
}, 300_000);
afterAll(async () => {
  await gateway?.stop();
  await tools?.remove();
});

/** Runs every check over all routes. Returns what Schemathesis says at the end. */
function fuzz(seed: number, examples: number, ...options: string[]): Promise<string> {
  return tools.run("schemathesis", [
    ...["--config-file", join(tools.folder, "schemathesis.toml"), "--no-color"],
    ...["run", `${gateway.url}/openapi.json`, "--url", gateway.url, "--checks", "all"],
    ...["--phases", "examples,coverage,fuzzing", "--max-examples", String(examples), "--continue-on-failure"],
    ...["--seed", String(seed), "--generation-database", "none", ...options],
  ]);
}

/** Cases that were made, and whether all of the eight operations had some. */
function told(summary: string): { all: boolean; cases: number } {
  return {
    all: /Tested: 8\b/.test(summary) && !/failed|Failures/i.test(summary.replaceAll("Authentication failed", "")),
    cases: Number(/(\d+) generated/.exec(summary)?.[1]),
  };
}

test("with a token, every answer is in the document", { timeout: 300_000 }, async () => {
  const { all, cases } = told(
    await fuzz(20_260_301, 100, "--header", `Authorization: Bearer ${await gateway.token()}`),
  );
  expect(all).toBe(true);
  expect(cases).toBeGreaterThan(1_000);
});

test("without one, too", { timeout: 300_000 }, async () => {
  const { all, cases } = told(await fuzz(20_260_302, 30));
  expect(all).toBe(true);
  expect(cases).toBeGreaterThan(500);
});
