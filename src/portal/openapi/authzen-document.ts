/** The OpenAPI document of the AuthZEN routes. */
import type { JsonObject } from "../../base/json.ts";
import { authzenRoutes } from "../../domain/bulk-routes.ts";
import { createRestRegistry } from "../../transport/rest/registry.ts";
import { withHeaderPrefix } from "./comments.ts";
import { type DocumentOptions, filesOf, frameDocument, methodOf, tags } from "./document.ts";
import { errorAnswers } from "./error-answers.ts";
import type { RouteExample } from "./examples/world.ts";
import { operation } from "./operations.ts";
import { headerParameters, headersOfRoute } from "./request-headers.ts";
import { Schemas } from "./schemas.ts";
import { SharedAnswers } from "./shared-answers.ts";

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

/** Makes the document. Pure: the same options give the same document. Throws if a route is not served. */
export function createAuthzenDocument(options: DocumentOptions): JsonObject {
  const { service, scopes, proofOfPossession, maxBodyBytes } = options;
  const comments = withHeaderPrefix(options.comments, options.headerPrefix);
  const served = authzenRoutes.map((route) => ({ route, method: methodOf(route, options.methods) }));
  const schemas = new Schemas(comments);
  const required = scopes.required("policy-resolve");
  const refusals = errorAnswers(service, "policy-resolve", required, proofOfPossession);
  const shared = new SharedAnswers(served.map(() => refusals));
  const registry = createRestRegistry([...new Set(served.flatMap(({ method }) => filesOf(method)))]);
  const content = { comments, registry, schemas, shared, service, scopes, proofOfPossession, maxBodyBytes };
  const paths = served.map(({ route: { rpc }, method }) => [
    method.restPath,
    operation(
      method,
      {
        summary: summaries[rpc] as string,
        required,
        parameters: headersOfRoute("policy-resolve"),
        examples: [examples[rpc] as RouteExample],
        refusals,
      },
      content,
    ),
  ]);
  return frameDocument(options, {
    title: `${service}: enforcement points`,
    summary: "Questions in the terms of AuthZEN 1.0",
    description: introduction,
    tags: tags(
      served.map(({ method }) => method),
      comments,
    ),
    paths: Object.fromEntries(paths) as JsonObject,
    schemas: schemas.finish({ isPart: true }),
    responses: shared.components,
    parameters: headerParameters(options.headerPrefix),
  });
}

const introduction = `The OpenID AuthZEN Authorization API 1.0, for enforcement points that ask on behalf of others. The
rules of \`/v1/sdk/\` apply here: the same credentials, tenants, refusals and receipts.

- The authenticated caller is the enforcement point. For a subject other than itself it needs the scope
  \`decisions.delegate\`, and policies that read \`context.on_behalf_of\` must permit it.
- An action on keys also needs the scopes of \`key-access-plan\`.
- An allow with an obligation that \`context.understood_obligations\` does not list is \`"decision": false\`.
- A search for subjects or resources asks only about the candidates in \`context.candidates\`, at most 1,000.
- Unknown members are ignored.`;

export const authzenMetadataPath = "/.well-known/authzen-configuration";

/** @param publicUrl of the service: never derived from a request */
export function authzenMetadata(publicUrl: string): Readonly<Record<string, string>> {
  const base = publicUrl.replace(/\/+$/, "");
  return {
    policy_decision_point: base,
    ...Object.fromEntries(authzenRoutes.map(({ endpoint, path }) => [endpoint, `${base}${path}`])),
  };
}
