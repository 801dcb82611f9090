/** The OpenAPI documents of further APIs. */
import type { JsonObject } from "../../src/base/json.ts";
import type { SdkRoute } from "../../src/base/vocabulary.ts";
import { authzenRoutes, bulkRoutes, type FurtherName, type FurtherRoute } from "../../src/domain/routes.ts";
import type { Api } from "./document.ts";
import { type RouteExample, routeExamples } from "./examples.ts";

type AuthzenRpc = (typeof authzenRoutes)[number]["rpc"];

const authzenSummaries: Readonly<Record<AuthzenRpc, string>> = {
  "AuthorizationService/Evaluate": "Decide on one question of an enforcement point",
  "AuthorizationService/EvaluateMany": "Decide on several questions of an enforcement point",
  "AuthorizationService/SearchSubjects": "Candidates that would be permitted an action",
  "AuthorizationService/SearchResources": "Candidates that a subject would be permitted an action on",
  "AuthorizationService/SearchActions": "Actions that a subject would be permitted",
};

const subject = { type: "user", id: "alice@example.com", properties: { department: "finance" } };
const resource = { type: "document", id: "doc-7", properties: { labels: ["restricted"] } };
const context = { workload: { application: "file-server" }, purpose: "preview" };
const answer = {
  decision: true,
  context: {
    decision_id: "01890a5d-ac96-774b-bcce-b302099a8057",
    policy_revision: "sha256:3f1a",
    reasons: ["platform/operations", "tenant/readers"],
    obligations: [],
  },
};
const examples: Readonly<Record<AuthzenRpc, RouteExample>> = {
  "AuthorizationService/Evaluate": {
    name: "another_subject",
    summary: "A file server asks for its user.",
    request: { subject, action: { name: "access" }, resource, context },
    answer,
  },
  "AuthorizationService/EvaluateMany": {
    name: "several",
    summary: "Two actions on one document.",
    request: {
      subject,
      resource,
      context,
      evaluations: [{ action: { name: "access" } }, { action: { name: "protect" } }],
      options: { evaluations_semantic: "deny_on_first_deny" },
    },
    answer: { evaluations: [answer, answer] },
  },
  "AuthorizationService/SearchSubjects": {
    name: "readers",
    summary: "Who of those that a folder is shared with may read the document.",
    request: {
      subject: { type: "user" },
      action: { name: "access" },
      resource,
      context: {
        ...context,
        candidates: [{ id: subject.id, properties: subject.properties }, { id: "bob@example.com" }],
      },
    },
    answer: {
      context: { decisions: [decisionOn({ id: subject.id }, true), decisionOn({ id: "bob@example.com" }, false)] },
      results: [{ type: "user", id: subject.id }],
    },
  },
  "AuthorizationService/SearchResources": {
    name: "first_page",
    summary: "Which documents of a folder the user may read, one a page.",
    request: {
      subject,
      action: { name: "access" },
      resource: { type: "document" },
      context: { ...context, candidates: [{ id: "doc-7", properties: resource.properties }, { id: "doc-8" }] },
      page: { limit: 1 },
    },
    answer: {
      page: { next_token: "1.1.47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", count: 1 },
      context: { decisions: [decisionOn({ id: "doc-7" }, true)] },
      results: [{ type: "document", id: "doc-7" }],
    },
  },
  "AuthorizationService/SearchActions": {
    name: "actions",
    summary: "Which of two actions the user may do to the document.",
    request: { subject, resource, context: { ...context, candidates: [{ name: "access" }, { name: "protect" }] } },
    answer: {
      results: [{ name: "access" }],
      context: { decisions: [decisionOn({ name: "access" }, true), decisionOn({ name: "protect" }, false)] },
    },
  },
};

function decisionOn(about: { readonly id: string } | { readonly name: string }, decision: boolean): JsonObject {
  return { decision_id: answer.context.decision_id, decision, ...about };
}

const authzenIntroduction = `The OpenID AuthZEN Authorization API 1.0, for enforcement points that ask on behalf of others. The
rules of \`/v1/sdk/\` apply here: the same credentials, tenants, refusals and receipts.

- The authenticated caller is the enforcement point. For a subject other than itself it needs the scope
  \`decisions.delegate\`, and policies that read \`context.on_behalf_of\` must permit it.
- An action on keys also needs the scopes of \`key-access-plan\`.
- An allow with an obligation that \`context.understood_obligations\` does not list is \`"decision": false\`.
- A search for subjects or resources asks only about the candidates in \`context.candidates\`, at most 1,000.
- Unknown members are ignored.`;

/** The API of enforcement points. */
const authzenApi: Api = {
  title: "service: enforcement points",
  summary: "Questions in the terms of AuthZEN 1.0",
  description: authzenIntroduction,
  routes: authzenRoutes.map((route) => {
    return { ...route, summary: authzenSummaries[route.rpc], examples: [examples[route.rpc]] };
  }),
  isFurther: true,
};

const bulkSummaries: Readonly<Record<string, string>> = {
  "BulkDecisionService/PlanProtections": "Decide on many operations and plan their local enforcement",
  "BulkDecisionService/ResolvePolicies": "Resolve authorization and handling guidance for many operations",
  "BulkDecisionService/PlanKeyAccesses": "Authorize the use of many keys",
  "BulkRecordService/RecordEvents": "Record many evidence events",
  "BulkRecordService/RegisterArtifacts": "Register the metadata of many protected artifacts",
};

const answerMembers = ["decision", "execution", "handling", "ingestion", "registration", "warnings"] as const;

/** For items with their own key: the member that holds the body of the single route. */
const itemMembers: Partial<Record<SdkRoute, string>> = { evidence: "event", "artifact-register": "registration" };

/** The examples of the single route, as the items of one call. */
function examplesOf({ like }: FurtherRoute): readonly RouteExample[] {
  const examples = routeExamples[like];
  const { service, status, caller, platform_domains } = (examples[0] as RouteExample).answer;
  const itemMember = itemMembers[like];
  const keyOf = (position: number) => `5f0c4f0e-6d0a-4a5e-9d3e-1f2f5e0b7a1${position}`;
  const items = examples.map(({ answer }, position) => {
    const members = answerMembers.flatMap((name) => (answer[name] === undefined ? [] : [[name, answer[name]]]));
    return {
      outcome: "answered",
      ...(itemMember !== undefined && { idempotency_key: keyOf(position) }),
      ...Object.fromEntries(members),
    };
  });
  const summary = "The questions of the single route's examples, and what became of each.";
  const requests = examples.map(({ request = {} }, position) =>
    itemMember === undefined ? request : { idempotency_key: keyOf(position), [itemMember]: request },
  );
  const request = { items: requests, ...(itemMember === undefined && { stop_on_first_deny: false }) };
  return [
    { name: "several", summary, request, answer: { service, status, caller, items, platform_domains } as JsonObject },
  ];
}

const bulkIntroduction = `Asks up to 1,000 questions of one kind in one call. The rules of \`/v1/sdk/\` apply here: the same
credentials, tenants, scopes (those of the single route), refusals and receipts.

- Items are answered in their order. An invalid item is refused by itself, with the error of its single route in
  \`items[].error\`; the others are answered.
- One durable commit carries all records of a call: if the store fails, the whole call is refused with 503, and no
  item is answered.
- Each event and registration has a key, which works like the header \`Idempotency-Key\` of the single route: a
  retried call records nothing twice and gets the first answers again.
- Limits and quotas count items: a call of 1,000 items uses 1,000 requests and, as far as they are answered, records.
- \`x-svc-receipt\` is \`brief\` unless the caller asks for \`full\`, \`cose\`, \`none\`, or \`range\`:
  then \`receipt\` of the answer is one proof for all of its items, and \`items[].leaf\` is the place of each.`;

/** The API of bulk calls. */
const bulkApi: Api = {
  title: "service: bulk",
  summary: "Many questions of one kind in one call",
  description: bulkIntroduction,
  routes: bulkRoutes.map((route) => {
    return { ...route, summary: bulkSummaries[route.rpc] as string, examples: examplesOf(route) };
  }),
  isFurther: true,
  isBulk: true,
};

/** Each by the name of its API. */
export const furtherDocuments: Readonly<Record<FurtherName, Api>> = { bulk: bulkApi, authzen: authzenApi };
