/**
 * The OpenAPI document (3.1), made from the descriptors, rules, routes, scopes and errors that serve the traffic, so
 * that it describes exactly what is served.
 */
import { stringify } from "yaml";
import type { JsonObject } from "../../base/json.ts";
import type { AuthMode, ProofOfPossession, SdkRoute } from "../../base/vocabulary.ts";
import { routes, type ScopeTable } from "../../domain/routes.ts";
import { createRestRegistry } from "../../transport/rest/registry.ts";
import { type RouteExamples, routeExamples } from "./examples.ts";
import {
  createSecurity,
  type DocumentedMethod,
  headerParameters,
  headersOfRoute,
  operation,
  SharedAnswers,
  tagOf,
} from "./operations.ts";
import { answerHeaders, errorAnswers, errorSchemas } from "./refusals.ts";
import { type Comments, describeWithoutName, Schemas, withHeaderPrefix } from "./schemas.ts";

export interface DocumentOptions {
  /** Must contain every public route; other methods are ignored. */
  readonly methods: readonly DocumentedMethod[];
  readonly comments: Comments;
  /** Name of the service in every answer. */
  readonly service: string;
  /** Version of the program. */
  readonly version: string;
  /** Lowercase prefix of the service's own headers, such as `x-svc-`. */
  readonly headerPrefix: string;
  readonly scopes: ScopeTable;
  readonly authMode: AuthMode;
  readonly proofOfPossession: ProofOfPossession;
  /** Largest request body in bytes, by `Service/Method`. */
  readonly maxBodyBytes: (rpc: string) => number;
  /** Base URL of the service; if absent, relative to the document. */
  readonly serverUrl?: string | undefined;
}

/** A route in the document of its API. */
export interface DocumentedRoute {
  /** `Service/Method`. */
  readonly rpc: string;
  readonly path: string;
  readonly summary: string;
  /** The route of the SDK whose scopes, refusals and request headers it has. */
  readonly like: SdkRoute;
  readonly examples: RouteExamples;
}

/** The parts of a document that are specific to its API. */
export interface Api {
  readonly title: (service: string) => string;
  readonly summary: string;
  /** @param headerPrefix lowercase prefix of the service's own headers */
  readonly description: (headerPrefix: string) => string;
  readonly routes: readonly DocumentedRoute[];
  /** Whether it is served beside the SDK's API. */
  readonly isFurther?: boolean;
  /** Whether a call has many items, each with its own key and its own conflict. */
  readonly isBulk?: boolean;
}

/** Makes the document of an API. Pure: the same options give the same document. Throws if a route is not served. */
export function createDocument(options: DocumentOptions, api: Api): JsonObject {
  const { service, scopes, headerPrefix, authMode, proofOfPossession, maxBodyBytes } = options;
  const { isBulk = false } = api;
  const comments = withHeaderPrefix(options.comments, headerPrefix);
  const served = api.routes.map((route) => {
    const required = scopes.required(route.like);
    const refusals = errorAnswers(service, route.like, required, proofOfPossession);
    // In a bulk call it occurs in items only.
    if (isBulk) refusals.delete(409);
    return { route, method: methodOf(route, options.methods), required, refusals };
  });
  const methods = served.map(({ method }) => method);
  const shared = new SharedAnswers(served.map(({ refusals }) => refusals));
  const registry = createRestRegistry([...new Set(methods.flatMap(filesOf))]);
  const context = { comments, registry, schemas: new Schemas(comments), shared, maxBodyBytes };
  const paths = served.map(({ route: { summary, like, examples }, method, required, refusals }) => {
    const parameters = headersOfRoute(like, { isBulk });
    const texts = { summary, required, parameters, examples: examples({ service, scopes }), refusals };
    return [method.restPath, operation(method, texts, context)];
  });
  const security = createSecurity(authMode, proofOfPossession);
  return {
    openapi: "3.1.0",
    info: {
      title: api.title(service),
      version: options.version,
      summary: api.summary,
      description: api.description(headerPrefix),
      contact: { name: "Operator of this deployment" },
      license: { name: "All rights reserved", identifier: "LicenseRef-All-Rights-Reserved" },
    },
    servers: [server(options.serverUrl)],
    tags: tags(methods, comments),
    security: security.requirements,
    paths: Object.fromEntries(paths) as JsonObject,
    components: {
      schemas: { ...context.schemas.finish({ isPart: api.isFurther === true }), ...errorSchemas },
      responses: shared.components,
      parameters: headerParameters(headerPrefix, { isBulk }),
      headers: answerHeaders(proofOfPossession),
      securitySchemes: security.schemes,
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

function server(url: string | undefined): JsonObject {
  if (url !== undefined) return { url: url.replace(/\/+$/, ""), description: "This deployment" };
  // Relative to the document's own URL, so it is right behind any host name and path prefix.
  return { url: ".", description: "This deployment" };
}

function tags(methods: readonly DocumentedMethod[], comments: Comments): JsonObject[] {
  const services = new Map(methods.map((method) => [tagOf(method), method.spec.method.parent.typeName]));
  return [...services]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, typeName]) => ({ name, description: describeWithoutName(comments, typeName) }));
}

/**
 * The rules that hold on every route, which callers read first.
 *
 * @param headerPrefix lowercase prefix of the service's own headers
 */
function introduction(headerPrefix: string): string {
  return `Tells workloads whether they may protect, access or rewrap data, and how they enforce it in their own
process. It is metadata-only: plaintext, keys and secrets never reach it.

## Calls

- Get an access token from the issuer with the client credentials grant, and present it as \`Authorization: Bearer\`.
  \`GET /v1/sdk/capabilities\` names the issuer, the audience and the scopes of every route. Tenant, principal and
  scopes come from the token: do not send \`${headerPrefix}tenant-id\`; if an edge forwards it, it must equal the
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
  \`${headerPrefix}receipt\` requests less; the examples here are \`brief\`.
- Retry artifact-register and evidence with the same \`Idempotency-Key\`, and the others freely: a decision changes
  nothing. On 429 and 503, wait as long as \`Retry-After\` says.

## Versions

The version is in the path. Members marked \`x-additive\` go beyond its first contract. Further members may be added to
answers, so ignore those that you do not know; nothing that is here is taken away or given another meaning.`;
}

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

const sdkApi: Api = {
  title: (service) => service,
  summary: "Metadata-only control plane for data protection that is enforced locally",
  description: introduction,
  routes: routes.map(({ rpc, path, route }) => {
    return { rpc, path, summary: summaries[route], like: route, examples: routeExamples[route] };
  }),
};

/** Makes the document of the eight routes. */
export function createOpenApiDocument(options: DocumentOptions): JsonObject {
  return createDocument(options, sdkApi);
}

// The OpenAPI document as JSON and as YAML.

/** Makes the document; each form is made on first use. */
export function documentTexts(
  options: DocumentOptions,
  create: (options: DocumentOptions) => JsonObject = createOpenApiDocument,
): { readonly json: () => Buffer; readonly yaml: () => Buffer } {
  const document = create(options);
  return {
    json: () => Buffer.from(toJsonText(document)),
    yaml: () => Buffer.from(toYamlText(document)),
  };
}

/** JSON, indented for readers. */
export function toJsonText(document: JsonObject): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** YAML of the same values. No aliases: many readers of OpenAPI do not follow them. */
export function toYamlText(document: JsonObject): string {
  // Through JSON, so that repeated values are written out and undefined ones omitted.
  return stringify(JSON.parse(JSON.stringify(document)), { aliasDuplicateObjects: false, lineWidth: 110 });
}
