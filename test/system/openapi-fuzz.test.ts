/** Schemathesis reads the documents and looks for answers that they do not have. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { furtherNames, furtherRoutes, routes } from "../../src/domain/routes.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { everyApi } from "../harness/methods.ts";
import { pythonForFile } from "../harness/python.ts";

/**
 * No JSON Schema can say that one member is the digest of another: a registration whose parts do not belong together
 * is refused although every part is good.
 */
const configuration = `
[[operations]]
include-path = "/v1/sdk/artifact-register"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "409", "429"]

# An item that is wrong is refused in the answer to its call, which holds the others' answers too.
[[operations]]
include-path-regex = "^/v1/bulk/"
checks.negative_data_rejection.expected-statuses = ["2xx", "400", "401", "403", "404", "405", "406", "409", "413", "415", "429"]

# Names of actions are the policies', and what is in contexts and properties has rules of its own; an unknown member is
# ignored, as AuthZEN has it. test/wire/openapi-requests.test.ts looks at what the document can say.
[[operations]]
include-path-regex = "^/access/v1/"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "429"]
`;

/** The documents, each with the number of its operations. */
const documents = [
  ["openapi", routes.length] as const,
  ...furtherNames.map((name) => [`openapi-${name}`, furtherRoutes[name].length] as const),
];

const client = defaultClient();
const gateway = await gatewayForFile({
  env: everyApi,
  issuer: { clients: [{ ...client, scopes: [...client.scopes, "decisions.delegate"] }] },
});
const tools = await pythonForFile("schemathesis==4.32.5");
await writeFile(join(tools.folder, "schemathesis.toml"), configuration);

/** Runs every check over all routes of a document. Returns what Schemathesis says at the end. */
function fuzz(document: string, seed: number, phases: string, examples: number, ...options: string[]): Promise<string> {
  return tools.run("schemathesis", [
    ...["--config-file", join(tools.folder, "schemathesis.toml"), "--no-color"],
    ...["run", `${gateway.url}/${document}.json`, "--url", gateway.url, "--checks", "all"],
    ...["--phases", phases, "--max-examples", String(examples), "--continue-on-failure"],
    ...["--seed", String(seed), "--generation-database", "none", ...options],
  ]);
}

/** Cases that were made, and whether all of so many operations had some. */
function told(summary: string, operations: number): { all: boolean; cases: number } {
  return {
    all:
      summary.includes(`Tested: ${operations}\n`) &&
      !/failed|Failures/i.test(summary.replaceAll("Authentication failed", "")),
    cases: Number(/(\d+) generated/.exec(summary)?.[1]),
  };
}

describe.each(documents)("%s", (document, operations) => {
  test("with a token, every answer is in the document", { timeout: 300_000 }, async () => {
    const token = `Authorization: Bearer ${await gateway.token()}`;
    const summary = await fuzz(document, 20_260_301, "examples,coverage,fuzzing", 60, "--header", token);
    const { all, cases } = told(summary, operations);
    expect({ all, summary: all ? "" : summary }).toEqual({ all: true, summary: "" });
    expect(cases).toBeGreaterThan(500);
  });

  // No body is read: what the coverage phase would vary.
  test("without a token, every answer is in the document", { timeout: 300_000 }, async () => {
    const { all, cases } = told(await fuzz(document, 20_260_302, "fuzzing", 30), operations);
    expect(all).toBe(true);
    expect(cases).toBeGreaterThan(100);
  });
});
