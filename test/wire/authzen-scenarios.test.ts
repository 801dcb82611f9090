/**
 * Scenarios like those of the AuthZEN working group's interoperability events, as pairs of our own: requests, and what
 * must come of them under the policies of `test/fixtures/authzen` and `test/fixtures/authzen-search`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";

const fixtures = join(import.meta.dirname, "../fixtures");

interface Pair<Expected> {
  readonly request: object;
  readonly expected: Expected;
}

const pairsOf = <Pairs>(name: string): Pairs =>
  JSON.parse(readFileSync(join(fixtures, `authzen-pairs/${name}.json`), "utf8")) as Pairs;

function startScenario(policies: string): Promise<Gateway> {
  const client = defaultClient();
  return startGateway({
    env: { SVC_POLICY_DIR: join(fixtures, policies), SVC_AUTHZEN: "on" },
    issuer: { clients: [{ ...client, scopes: [...client.scopes, "decisions.delegate"] }] },
  });
}

describe("evaluations", () => {
  let gateway: Gateway;
  let token: string;
  beforeAll(async () => {
    gateway = await startScenario("authzen");
    token = await gateway.token();
  }, 60_000);
  afterAll(() => gateway.stop());

  test.each([
    ["todos", 55, 4],
    ["gateways", 20, 0],
  ])("%s: every pair is decided as it says", async (name, questions, lists) => {
    const { evaluation, evaluations } = pairsOf<{
      evaluation: readonly Pair<boolean>[];
      evaluations: readonly Pair<readonly { readonly decision: boolean }[]>[];
    }>(name);
    expect([evaluation.length, evaluations.length]).toEqual([questions, lists]);
    for (const { request, expected } of evaluation) {
      const { body } = await rest(`${gateway.url}/access/v1/evaluation`, { token, body: request });
      expect({ request, decision: body.decision }).toEqual({ request, decision: expected });
    }
    for (const { request, expected } of evaluations) {
      const { body } = await rest(`${gateway.url}/access/v1/evaluations`, { token, body: request });
      const decisions = body.evaluations?.map(({ decision }: { decision: boolean }) => ({ decision }));
      expect({ request, decisions }).toEqual({ request, decisions: expected });
    }
  });
});

describe("searches", () => {
  let gateway: Gateway;
  let token: string;
  beforeAll(async () => {
    gateway = await startScenario("authzen-search");
    token = await gateway.token();
  }, 60_000);
  afterAll(() => gateway.stop());

  test.each(["subject", "resource", "action"] as const)("for a %s: every pair finds what it says", async (searched) => {
    const pairs = pairsOf<Record<typeof searched, readonly Pair<readonly object[]>[]>>("searches")[searched];
    expect(pairs.length).toBeGreaterThan(7);
    for (const { request, expected } of pairs) {
      const { body } = await rest(`${gateway.url}/access/v1/search/${searched}`, { token, body: request });
      expect({ request, results: body.results }).toEqual({ request, results: expected });
    }
  });
});
