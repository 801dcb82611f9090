/** The OpenAPI document of the routes of enforcement points. */
import type { JsonObject } from "../../base/json.ts";
import { authzenRoutes } from "../../domain/authzen-routes.ts";
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
  "AuthorizationService/SearchActions": {
    name: "actions",
    summary: "What the user may do to the document.",
    request: { subject, resource, context },
    answer: { results: [{ name: "access" }] },
  },
};

/** Makes the document. Pure: the same options give the same document. Throws where a route is not served. */
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

const introduction = `The OpenID AuthZEN Authorization API 1.0, for enforcement points that ask for somebody else. What holds for
calls to \`/v1/sdk/\` holds here: the same credentials, tenants, refusals and receipts.

- The authenticated caller is the enforcement point. For a subject other than itself it needs the scope
  \`decisions.delegate\`, and policies that read \`context.on_behalf_of\` must permit it.
- An action on keys needs the scopes of \`key-access-plan\` besides.
- An allow that obliges to what \`context.understood_obligations\` does not list is \`"decision": false\`.
- Members that are not known are ignored.`;
