/**
 * The request and response pairs that the AuthZEN working group published, against policies of our own for their scenarios.
 * AUTHZEN_DATA names the folder of a copy of the public repository (openid/authzen); nothing of it is kept here.
 */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { rest, startGateway } from "../harness/gateway.ts";

const folder = process.env.AUTHZEN_DATA;
const files = [
  "interop/authzen-todo-backend/test/decisions.json",
  "interop/authzen-todo-backend/test/decisions-authorization-api-1_0-00.json",
  "interop/authzen-todo-backend/test/decisions-authorization-api-1_0-01.json",
  "interop/authzen-todo-backend/test/decisions-authorization-api-1_0-02.json",
  "interop/authzen-api-gateways/test-harness/test/decisions.json",
];

interface Pair {
  readonly request: {
    readonly subject: { readonly id: string };
    readonly resource?: { readonly properties?: { readonly ownerID?: string }; readonly ownerID?: string };
  };
  readonly expected: boolean | readonly { readonly decision: boolean }[];
}

type Failed = Pair & { readonly actual: unknown };

/** Who they are in the scenario, in the order in which the pairs name them, and whose todos each of them changes. */
const people = ["genius", "morty", "summer", "beth", "jerry"];

const clients = [{ ...defaultClient(), scopes: [...defaultClient().scopes, "decisions.delegate"] }];

function published<Content>(file: string): Content {
  const path = join(folder as string, file);
  expect(existsSync(path), path).toBe(true);
  return JSON.parse(readFileSync(path, "utf8")) as Content;
}

test.skipIf(folder === undefined).each(files)("%s", async (file) => {
  const {
    decisions,
    evaluation = decisions,
    evaluations = [],
  } = published<{
    decisions?: readonly Pair[];
    evaluation?: readonly Pair[];
    evaluations?: readonly Pair[];
  }>(file);
  const single = evaluation ?? [];
  const ids = [...new Set(single.map(({ request }) => request.subject.id))];
  const ownerOf = ({ request: { resource } }: Pair) => resource?.properties?.ownerID ?? resource?.ownerID;
  const names = new Map<string, string>(
    ids.flatMap((id, position) => {
      const name = people[position] as string;
      // The last that a subject changes is its own.
      const mail = single
        .filter(({ request }) => request.subject.id === id)
        .map(ownerOf)
        .findLast(Boolean);
      return [[`{${name}}`, id] as const, [`{${name}-mail}`, mail ?? "nobody"] as const];
    }),
  );
  const policies = mkdtempSync(join(tmpdir(), "authzen-"));
  cpSync(join(import.meta.dirname, "../fixtures/authzen"), policies, { recursive: true });
  const todos = join(policies, "default/todos.cedar");
  writeFileSync(
    todos,
    readFileSync(todos, "utf8").replaceAll(/\{[a-z-]+\}/g, (name) => names.get(name) ?? name),
  );
  const gateway = await startGateway({ env: { SVC_POLICY_DIR: policies, SVC_AUTHZEN: "on" }, issuer: { clients } });
  try {
    const token = await gateway.token();
    const failed: Failed[] = [];
    let passed = 0;
    const compare = (pair: Pair, actual: unknown) => {
      if (JSON.stringify(actual) === JSON.stringify(pair.expected)) passed += 1;
      else failed.push({ ...pair, actual });
    };
    for (const pair of single) {
      const { body } = await rest(`${gateway.url}/access/v1/evaluation`, { token, body: pair.request });
      compare(pair, body.decision);
    }
    for (const pair of evaluations) {
      const { body } = await rest(`${gateway.url}/access/v1/evaluations`, { token, body: pair.request });
      compare(
        pair,
        body.evaluations?.map(({ decision }: { decision: boolean }) => ({ decision })),
      );
    }
    process.stdout.write(`${file}: ${passed} of ${passed + failed.length} pairs\n`);
    // Until draft 01 an owner stood beside the properties, where 1.0 has members that are ignored: such a pair fails closed.
    const isOfOldForm = ({ request, actual }: Failed) => request.resource?.ownerID !== undefined && actual === false;
    expect(failed.filter((pair) => !isOfOldForm(pair))).toEqual([]);
  } finally {
    await gateway.stop();
    rmSync(policies, { recursive: true });
  }
});

const searchData = "interop/authzen-search-demo";

interface Known {
  readonly id: string | number;
  readonly [member: string]: unknown;
}

type Found = { readonly type?: string; readonly id?: string; readonly name?: string };

interface SearchPair {
  readonly request: { readonly subject: Found; readonly resource: Found };
  readonly expected: { readonly results: readonly Found[] };
}

/**
 * In the scenario the decision point knows people and records. Here whoever enforces says what is known of them, and who
 * and what there is: their properties and the candidates are put in, of the scenario's own data. As they were published,
 * the requests of the other two searches are refused for having no candidates.
 */
test.skipIf(folder === undefined).each(["subject", "resource", "action"])("search for: %s", async (searched) => {
  const pairs = published<{ evaluation: readonly SearchPair[] }>(
    `${searchData}/test/${searched}/results.json`,
  ).evaluation;
  const entities = (name: string) =>
    published<readonly Known[]>(`${searchData}/data/${name}.json`).map(({ id, ...properties }) => ({
      id: String(id),
      properties,
    }));
  const known = { subject: entities("users"), resource: entities("records") };
  const withProperties = (kind: "subject" | "resource", entity: Found) => ({
    ...entity,
    properties: known[kind].find(({ id }) => id === String(entity.id))?.properties,
  });
  const gateway = await startGateway({
    env: { SVC_POLICY_DIR: join(import.meta.dirname, "../fixtures/authzen-search"), SVC_AUTHZEN: "on" },
    issuer: { clients },
  });
  try {
    const token = await gateway.token();
    const failed: unknown[] = [];
    const search = async (body: object) =>
      (await rest(`${gateway.url}/access/v1/search/${searched}`, { token, body })).body;
    for (const { request, expected } of pairs) {
      const { results, error } = await search({
        ...request,
        subject: withProperties("subject", request.subject),
        resource: withProperties("resource", request.resource),
        ...(searched !== "action" && { context: { candidates: known[searched as keyof typeof known] } }),
      });
      if (JSON.stringify(sorted(results)) !== JSON.stringify(sorted(expected.results)))
        failed.push({ request, expected, results, error });
    }
    process.stdout.write(`${searchData} ${searched}: ${pairs.length - failed.length} of ${pairs.length} pairs\n`);
    expect(failed).toEqual([]);
    const [first] = pairs;
    const asPublished = await search(first?.request ?? {});
    if (searched === "action") expect(asPublished.results).toEqual(expect.any(Array));
    else expect(asPublished.error.violations[0].field).toBe("context.candidates");
  } finally {
    await gateway.stop();
  }
});

/** As those who published them compare: in no order. */
function sorted(results: readonly Found[] | undefined): readonly string[] | undefined {
  return results?.map(({ id, name, type }) => JSON.stringify([type, id, name])).toSorted();
}
