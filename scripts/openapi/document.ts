/**
 * The OpenAPI documents (3.1), made from the descriptors, rules, routes and errors that serve the traffic, so that they
 * describe exactly what is served.
 */

import { createRestRegistry } from "../../dev/rest-json.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { SdkRoute } from "../../src/base/vocabulary.ts";
import { routes as sdkRoutes } from "../../src/domain/routes.ts";
import { routeExamples } from "./examples.ts";
import { type DocumentedMethod, type DocumentedRoute, headerParameters, operation, tagOf } from "./operations.ts";
import { answerHeaders, errorSchemas } from "./refusals.ts";
import { type Comments, describeWithoutName, Schemas } from "./schemas.ts";

/** The parts of a document that are specific to its API. */
export interface Api {
  /** Begins with a name of the service, before a colon if more follows. */
  readonly title: string;
  readonly summary: string;
  /** Names own headers with their default prefix. */
  readonly description: string;
  readonly routes: readonly DocumentedRoute[];
  /** Whether it is served beside the SDK's API. */
  readonly isFurther?: boolean;
  /** Whether a call has many items, each with its own key and its own conflict. */
  readonly isBulk?: boolean;
}

/**
 * Makes the document of an API, without the values of a deployment, which `src/portal/documents.ts` puts in. Throws if a
 * route is not served, or if something has no comment.
 */
export function createDocument(
  { title, summary, description, routes, isFurther = false, isBulk = false }: Api,
  methods: readonly DocumentedMethod[],
  comments: Comments,
): JsonObject {
  const served = routes.map((route) => ({ route, method: methodOf(route, methods) }));
  const registry = createRestRegistry([...new Set(served.flatMap(({ method }) => filesOf(method)))]);
  const context = { comments, registry, schemas: new Schemas(comments), isBulk };
  const paths = served.map(({ route, method }) => [method.restPath, operation(method, route, context)]);
  return {
    openapi: "3.1.0",
    info: {
      title,
      version: "",
      summary,
      description,
      contact: { name: "Operator of this deployment" },
      license: { name: "All rights reserved", identifier: "LicenseRef-All-Rights-Reserved" },
    },
    servers: [],
    tags: tags(
      served.map(({ method }) => method),
      comments,
    ),
    security: [],
    paths: Object.fromEntries(paths) as JsonObject,
    components: {
      schemas: { ...context.schemas.finish({ isPart: isFurther }), ...errorSchemas },
      responses: {},
      parameters: headerParameters({ isBulk }),
      headers: answerHeaders,
      securitySchemes: {},
    },
  };
}

/** Throws if the route is not served. */
function methodOf(
  { rpc, path }: { readonly rpc: string; readonly path: string },
  methods: readonly DocumentedMethod[],
): DocumentedMethod {
  const found = methods.find((method) => method.rpc === rpc);
  if (found === undefined || found.restPath !== path) throw new Error(`${path} is not served by ${rpc}`);
  return found;
}

function filesOf({ spec }: DocumentedMethod) {
  const { file } = spec.method.input;
  return [file, ...file.dependencies];
}

function tags(methods: readonly DocumentedMethod[], comments: Comments): JsonObject[] {
  const services = new Map(methods.map((method) => [tagOf(method), method.spec.method.parent.typeName]));
  return [...services]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, typeName]) => ({ name, description: describeWithoutName(comments, typeName) }));
}

/** The rules that hold on every route, which callers read first. */
const introduction = `Tells workloads whether they may protect, access or rewrap data, and how they enforce it in their own
process. It is metadata-only: plaintext, keys and secrets never reach it.

## Calls

- Get an access token from the issuer with the client credentials grant, and present it as \`Authorization: Bearer\`.
  \`GET /v1/sdk/capabilities\` names the issuer, the audience and the scopes of every route. Tenant, principal and
  scopes come from the token: do not send \`x-svc-tenant-id\`; if an edge forwards it, it must equal the
  token's tenant.
- Bodies are JSON objects in UTF-8, \`application/json\`. \`HEAD\` is answered wherever \`GET\` is.
- An optional member may be omitted, or sent as \`null\` or, if it is text, as \`""\`: all three mean absent.
- Unknown members, duplicate members, unknown enumeration values, U+0000 and lone surrogates are refused: a
  metadata-only service must not silently accept a \`plaintext\`.
- In an answer, every required member is present, empty or not; an optional member without a value is omitted.
- A policy denial is a normal answer, 200 with \`decision.allow\` false. 403 means that the token lacks a scope.
- Order of refusal: route (404, 405), credentials (401), tenant and scopes (403), all before the body is read; then
  type (415), size (413) and content (400). A path that is not in this document is answered 404, \`no_route\`.
- Every refusal carries the same envelope; its \`reason\` comes from a closed list. Every answer carries
  \`x-request-id\`. Nothing between service and caller may cache answers.

## Receipts and retries

- Every decision, registration and event is in the tenant's log before its answer is sent, and the answer carries a
  \`receipt\`: with it anyone can check offline that the log holds exactly this record. The header
  \`x-svc-receipt\` requests less, or a COSE receipt too; the examples here are \`brief\`.
- Retry artifact-register and evidence with the same \`Idempotency-Key\`, and the others freely: a decision changes
  nothing. On 429 and 503, wait as long as \`Retry-After\` says.

## Versions

The version is in the path. Members marked \`x-additive\` go beyond its first contract. Further members may be added to
answers, so ignore those that you do not know; nothing that is here is taken away or given another meaning.`;

const summaries: Readonly<Record<SdkRoute, string>> = {
  capabilities: "Authentication contract, routes and their scopes",
  whoami: "The caller as the service sees it",
  bootstrap: "Enforcement model of the deployment",
  "protection-plan": "Decide on an operation and plan its local enforcement",
  "policy-resolve": "Resolve authorization and handling guidance",
  "key-access-plan": "Authorize the use of a key",
  "artifact-register": "Register the metadata of a protected artifact",
  evidence: "Record an evidence event",
};

/** The API of the eight routes. */
export const sdkApi: Api = {
  title: "service",
  summary: "Metadata-only control plane for data protection that is enforced locally",
  description: introduction,
  routes: sdkRoutes.map(({ rpc, path, route }) => {
    return { rpc, path, summary: summaries[route], like: route, examples: routeExamples[route] };
  }),
};
