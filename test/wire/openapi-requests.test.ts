/** What the documents say of requests, and what the service does with them: what a document accepts is not refused. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { furtherNames } from "../../src/domain/routes.ts";
import { gatewayForFile, type RestAnswer, rest } from "../harness/gateway.ts";
import { everyApi } from "../harness/methods.ts";

type Any = RestAnswer["body"];

const gateway = await gatewayForFile({
  env: everyApi,
  issuer: { clients: [{ ...defaultClient(), scopes: [...defaultClient().scopes, "decisions.delegate"] }] },
});
const token = await gateway.token();

const documents = ["openapi", ...furtherNames.map((name) => `openapi-${name}`)].map((name): Any => {
  const document: Any = JSON.parse(readFileSync(join(import.meta.dirname, `../../gen/${name}.json`), "utf8"));
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  ajv.addSchema(document, name);
  return { name, document, ajv };
});

interface Route {
  readonly path: string;
  readonly example: Any;
  readonly accepts: (body: unknown) => boolean;
}

const routes: readonly Route[] = documents.flatMap(({ name, document, ajv }) =>
  Object.entries<Any>(document.paths).flatMap(([path, { post }]): readonly Route[] => {
    const content = post?.requestBody?.content["application/json"];
    if (content === undefined) return [];
    const validate = ajv.compile({ $ref: `${name}#${content.schema.$ref.slice(1)}` });
    const examples = Object.values<Any>(content.examples).map(({ value }) => value);
    return examples.map((example) => ({ path, example, accepts: (body) => validate(body) === true }));
  }),
);

const others = [null, "", {}, [], [{}], [null], 0, false, "\u0000", "x".repeat(3_000)];

/** The request with one of its members left out, or with something else in its place. */
function* changes(value: Any): Generator<Any> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    const at = (changed: Any) =>
      Array.isArray(value) ? value.with(Number(name), changed) : { ...value, [name]: changed };
    if (Array.isArray(value)) yield value.toSpliced(Number(name), 1);
    else yield Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));
    for (const other of others) yield at(other);
    for (const inner of changes(member)) yield at(inner);
  }
}

/** What no JSON Schema can say, or what is in objects that are free: names of what the service refuses. */
const unsaid = /(^|\.)(context|properties)\b|^artifact_(cid|digest): |^page\.token: |action\.name: action\.known$/;

test.each(routes.map((route) => [route.path, route] as const))(
  "%s: every request that the document allows is accepted",
  async (_, route) => {
    const { path, example, accepts } = route;
    expect(accepts(example)).toBe(true);
    let asked = 0;
    for (const body of new Set([{}, ...changes(example)].map((each) => JSON.stringify(each)))) {
      if (!accepts(JSON.parse(body))) continue;
      asked += 1;
      const { status, body: answer } = await rest(gateway.url + path, { token, body });
      const violations: readonly { field: string; rule: string }[] = answer.error?.violations ?? [];
      const faults = violations.map(({ field, rule }) => `${field}: ${rule}`);
      const isUnsaid = faults.length > 0 && faults.every((fault) => unsaid.test(fault));
      const sent = body.slice(0, 500);
      expect({ sent, faults, isRefused: status === 400 && !isUnsaid }).toEqual({ sent, faults, isRefused: false });
    }
    expect(asked).toBeGreaterThan(0);
  },
);

const [subject, action] = [{ type: "user", id: "a" }, { name: "access" }];
const resource = { type: "record", id: "r" };

test.each([
  ["/v1/bulk/evidence", { items: null }],
  ["/v1/bulk/evidence", {}],
  ["/v1/bulk/protection-plans", { items: [] }],
  ["/access/v1/evaluations", {}],
  ["/access/v1/evaluations", { evaluations: [{}] }],
  ["/access/v1/evaluations", { evaluations: null }],
  ["/access/v1/evaluations", { subject, action, resource, options: { evaluations_semantic: "any" } }],
  ["/access/v1/evaluation", { subject, action, resource: { type: "x", id: null } }],
  ["/access/v1/evaluation", { subject, action: { name: "" }, resource }],
])("%s refuses %j, and so does its document", async (path, body) => {
  expect((await rest(gateway.url + path, { token, body })).status).toBe(400);
  for (const route of routes) if (route.path === path) expect(route.accepts(body)).toBe(false);
});

test("questions that complete each other are accepted, and the document allows them", async () => {
  for (const body of [
    { subject, evaluations: [{ action, resource }] },
    { subject, action, resource },
    { subject, action, resource, evaluations: [{}, { action }] },
    { evaluations: [{ subject, action, resource }] },
  ]) {
    expect((await rest(`${gateway.url}/access/v1/evaluations`, { token, body })).status).toBe(200);
    for (const route of routes) if (route.path === "/access/v1/evaluations") expect(route.accepts(body)).toBe(true);
  }
});
