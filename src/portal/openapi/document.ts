/**
 * The OpenAPI document (3.1), made from the descriptors, rules, routes, scopes and errors that serve the traffic, so
 * that it describes exactly what is served.
 */
import type { JsonObject } from "../../base/json.ts";
import type { AuthMode, ProofOfPossession } from "../../base/vocabulary.ts";
import { routes, type ScopeTable } from "../../domain/routes.ts";
import { createRestRegistry } from "../../transport/rest/registry.ts";
import { type Comments, describeWithoutName, withHeaderPrefix } from "./comments.ts";
import { answerHeaders, errorAnswers, errorSchemas } from "./error-answers.ts";
import { type DocumentedMethod, pathItem, tagOf } from "./operations.ts";
import { headerParameters } from "./request-headers.ts";
import { Schemas } from "./schemas.ts";
import { createSecurity } from "./security.ts";
import { SharedAnswers } from "./shared-answers.ts";

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

/** The deployment's properties in every document, of any API. */
export type FrameOptions = Pick<
  DocumentOptions,
  "service" | "version" | "headerPrefix" | "authMode" | "proofOfPossession" | "serverUrl"
>;

/** The part of a document that is specific to its API. */
export interface DocumentContent {
  readonly title: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly JsonObject[];
  readonly paths: JsonObject;
  readonly schemas: JsonObject;
  /** Answers that several routes share. */
  readonly responses: JsonObject;
  readonly parameters: JsonObject;
}

/** Combines the content with the schemas of refusals, the headers of answers and the security. */
export function frameDocument(options: FrameOptions, content: DocumentContent): JsonObject {
  const { authMode, proofOfPossession, version, serverUrl } = options;
  const { title, summary, description, tags, paths, schemas, responses, parameters } = content;
  const security = createSecurity(authMode, proofOfPossession);
  return {
    openapi: "3.1.0",
    info: {
      title,
      version,
      summary,
      description,
      contact: { name: "Operator of this deployment" },
      license: { name: "All rights reserved", identifier: "LicenseRef-All-Rights-Reserved" },
    },
    servers: [server(serverUrl)],
    tags,
    security: security.requirements,
    paths,
    components: {
      schemas: { ...schemas, ...errorSchemas },
      responses,
      parameters,
      headers: answerHeaders(proofOfPossession),
      securitySchemes: security.schemes,
    },
  };
}

/** Makes the document. Pure: the same options give the same document. Throws if a public route is not served. */
export function createOpenApiDocument(options: DocumentOptions): JsonObject {
  const { service, scopes, proofOfPossession, maxBodyBytes } = options;
  const comments = withHeaderPrefix(options.comments, options.headerPrefix);
  const served = routes.map((route) => ({ route, method: methodOf(route, options.methods) }));
  const schemas = new Schemas(comments);
  const shared = new SharedAnswers(
    served.map(({ route: { route } }) => errorAnswers(service, route, scopes.required(route), proofOfPossession)),
  );
  const registry = createRestRegistry([...new Set(served.flatMap(({ method }) => filesOf(method)))]);
  const context = {
    comments,
    registry,
    schemas,
    shared,
    service,
    scopes,
    proofOfPossession,
    maxBodyBytes,
  };
  const paths = Object.fromEntries(
    served.map(({ route, method }) => [method.restPath, pathItem(route, method, context)]),
  );
  return frameDocument(options, {
    title: service,
    summary: "Metadata-only control plane for data protection that is enforced locally",
    description: introduction(options.headerPrefix),
    tags: tags(
      served.map(({ method }) => method),
      comments,
    ),
    paths,
    schemas: schemas.finish(),
    responses: shared.components,
    parameters: headerParameters(options.headerPrefix),
  });
}

/** Throws if the route is not served. */
export function methodOf(
  { rpc, path }: { readonly rpc: string; readonly path: string },
  methods: readonly DocumentedMethod[],
): DocumentedMethod {
  const found = methods.find((method) => method.rpc === rpc);
  if (found === undefined || found.restPath !== path) throw new Error(`${path} is not served by ${rpc}`);
  return found;
}

export function filesOf({ spec }: DocumentedMethod) {
  const { file } = spec.method.input;
  return [file, ...file.dependencies];
}

function server(url: string | undefined): JsonObject {
  if (url !== undefined) return { url: url.replace(/\/+$/, ""), description: "This deployment" };
  // Relative to the document's own URL, so it is right behind any host name and path prefix.
  return { url: ".", description: "This deployment" };
}

export function tags(methods: readonly DocumentedMethod[], comments: Comments): JsonObject[] {
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
