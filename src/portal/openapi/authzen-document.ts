/** The OpenAPI document of the AuthZEN routes. */
import type { JsonObject } from "../../base/json.ts";
import { authzenRoutes } from "../../domain/routes.ts";
import { type Api, createDocument, type DocumentOptions } from "./document.ts";
import type { RouteExample } from "./examples.ts";

const summaries: Readonly<Record<string, string>> = {
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
const examples: Readonly<Record<string, RouteExample>> = {
  "AuthorizationService/Evaluate": {
    name: "somebody_else",
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

const introduction = `The OpenID AuthZEN Authorization API 1.0, for enforcement points that ask on behalf of others. The
rules of \`/v1/sdk/\` apply here: the same credentials, tenants, refusals and receipts.

- The authenticated caller is the enforcement point. For a subject other than itself it needs the scope
  \`decisions.delegate\`, and policies that read \`context.on_behalf_of\` must permit it.
- An action on keys also needs the scopes of \`key-access-plan\`.
- An allow with an obligation that \`context.understood_obligations\` does not list is \`"decision": false\`.
- A search for subjects or resources asks only about the candidates in \`context.candidates\`, at most 1,000.
- Unknown members are ignored.`;

const api: Api = {
  title: (service) => `${service}: enforcement points`,
  summary: "Questions in the terms of AuthZEN 1.0",
  description: () => introduction,
  routes: authzenRoutes.map(({ rpc, path }) => {
    const examplesOfRoute = () => [examples[rpc] as RouteExample];
    return { rpc, path, summary: summaries[rpc] as string, like: "policy-resolve", examples: examplesOfRoute };
  }),
  isFurther: true,
};

/** Makes the document. */
export function createAuthzenDocument(options: DocumentOptions): JsonObject {
  return createDocument(options, api);
}

export const authzenMetadataPath = "/.well-known/authzen-configuration";

/** @param publicUrl of the service: never derived from a request */
export function authzenMetadata(publicUrl: string): Readonly<Record<string, string>> {
  const base = publicUrl.replace(/\/+$/, "");
  return {
    policy_decision_point: base,
    ...Object.fromEntries(authzenRoutes.map(({ endpoint, path }) => [endpoint, `${base}${path}`])),
  };
}
