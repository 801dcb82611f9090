/**
 * The OpenAPI document (3.1), made from the descriptors, rules, routes, scopes and errors that serve the traffic, so
 * that it says what is served and nothing else.
 */
import type { JsonObject } from "../../base/json.ts";
import type { AuthMode, ProofOfPossession } from "../../base/vocabulary.ts";
import { routes, type ScopeTable } from "../../domain/routes.ts";
import { createRestRegistry } from "../../transport/rest/registry.ts";
import { type Comments, describeWithoutName, withHeaderPrefix } from "./comments.ts";
import { answerHeaders, errorAnswers, errorSchemas } from "./error-answers.ts";
import { introduction } from "./introduction.ts";
import { type DocumentedMethod, pathItem, tagOf } from "./operations.ts";
import { headerParameters } from "./request-headers.ts";
import { Schemas } from "./schemas.ts";
import { createSecurity } from "./security.ts";
import { SharedAnswers } from "./shared-answers.ts";

export interface DocumentOptions {
  /** Every public route must be among them; what is not a public route is left out. */
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
  /** Base URL of the service; where absent, it is where the document comes from. */
  readonly serverUrl?: string | undefined;
}

/** What every document says of the deployment, whichever API it is of. */
export type FrameOptions = Pick<
  DocumentOptions,
  "service" | "version" | "headerPrefix" | "authMode" | "proofOfPossession" | "serverUrl"
>;

/** What a document says of its API. */
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

/** Makes a document of what it says of its API, with the schemas of refusals, the headers of answers and the security. */
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

/** Makes the document. Pure: the same options give the same document. Throws where a public route is not served. */
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

/** Throws where the route is not served. */
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
  // Relative to where the document was read: right behind any host name and path prefix.
  return { url: ".", description: "This deployment" };
}

export function tags(methods: readonly DocumentedMethod[], comments: Comments): JsonObject[] {
  const services = new Map(methods.map((method) => [tagOf(method), method.spec.method.parent.typeName]));
  return [...services]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, typeName]) => ({ name, description: describeWithoutName(comments, typeName) }));
}
