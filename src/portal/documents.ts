/**
 * The OpenAPI documents of a deployment. `gen/` has those of one with default settings, which `scripts/openapi.ts` makes
 * from the contract. The service puts its own values in place of theirs: name, version and address, prefix of headers,
 * scopes, credentials and size limits.
 */
import { readFile } from "node:fs/promises";
import { STATUS_CODES } from "node:http";
import { stringify } from "yaml";
import { refusedToken, underDpop } from "../auth/challenge.ts";
import type { ServiceError } from "../base/errors.ts";
import { type JsonObject, type JsonValue, parseJson } from "../base/json.ts";
import { grouped } from "../base/visible-text.ts";
import type { AuthMode, ProofOfPossession } from "../base/vocabulary.ts";
import { documentedRoutes, routes, type ScopeTable } from "../domain/routes.ts";

/** Values of a deployment that its documents show. */
export interface DocumentOptions {
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

/** Reads the document of an API and puts in the deployment's values. */
export async function documentOf(file: URL, options: DocumentOptions): Promise<JsonObject> {
  return withValues(await readFile(file, "utf8"), options);
}

/** The parts of a document that depend on the deployment. */
interface Document {
  readonly info: { title: string; version: string };
  servers: readonly JsonObject[];
  security: readonly JsonObject[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    responses: Record<string, Answer>;
    headers: JsonObject;
    securitySchemes: JsonObject;
  };
}

type Answer = { readonly $ref: string } | Described;

interface Described {
  readonly headers: Record<string, JsonValue>;
  readonly content: { readonly "application/json": { readonly examples: Record<string, { value: JsonValue }> } };
}

interface Operation {
  description: string;
  readonly requestBody?: { description: string; "x-max-bytes": number };
  readonly responses: Record<string, Answer>;
  "x-required-scopes": readonly string[];
}

/** Own headers as the contract writes them, with the default prefix. */
const writtenPrefix = /\bx-svc-/g;

/** The document with a deployment's values. Pure. Throws if a path of the document is not in the table of routes. */
export function withValues(text: string, options: DocumentOptions): JsonObject {
  const { service, version, headerPrefix, scopes, authMode, proofOfPossession, maxBodyBytes, serverUrl } = options;
  const document = parseJson(text.replaceAll(writtenPrefix, headerPrefix)) as Document;
  const { info, paths, components } = document;
  info.title = info.title.replace(/^[^:]*/, service);
  info.version = version;
  // A relative URL is relative to the document's own, so it is right behind any host name and path prefix.
  document.servers = [{ url: serverUrl?.replace(/\/+$/, "") ?? ".", description: "This deployment" }];
  const { schemes, requirements } = securityOf(authMode, proofOfPossession);
  document.security = requirements;
  components.securitySchemes = schemes;
  if (proofOfPossession === "dpop") Object.assign(components.headers, dpopHeaders);

  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.values(item).map((operation) => ({ path, operation })),
  );
  for (const { path, operation } of operations) {
    const row = documentedRoutes.find((route) => route.path === path);
    if (row === undefined) throw new Error(`${path} is not in the table of routes`);
    const required = scopes.required(row.like);
    operation["x-required-scopes"] = required;
    operation.description = `${operation.description.replace(/\n\nNeeds .*$/, "")}\n\n${scopesText(required)}`;
    if (operation.requestBody !== undefined) {
      const maxBytes = maxBodyBytes(row.rpc);
      operation.requestBody["x-max-bytes"] = maxBytes;
      operation.requestBody.description = `A JSON object in UTF-8, at most ${grouped(maxBytes)} bytes.`;
    }
    const values: ExampleValues = { service, scopes, required };
    for (const [status, answer] of Object.entries(operation.responses)) {
      const own = ownAnswer(answer, components.responses);
      for (const example of Object.values(own.content["application/json"].examples))
        example.value = exampleOf(example.value, values);
      if (status === "401" && proofOfPossession === "dpop")
        own.headers["DPoP-Nonce"] = { $ref: "#/components/headers/DpopNonce" };
      operation.responses[status] = own;
    }
  }
  components.responses = shareAnswers(operations.map(({ operation }) => operation.responses));
  return document as unknown as JsonObject;
}

function scopesText(scopes: readonly string[]): string {
  if (scopes.length === 0) return "Needs no scope.";
  return `Needs the scope${scopes.length === 1 ? "" : "s"} ${scopes.map((scope) => `\`${scope}\``).join(", ")}.`;
}

interface ExampleValues {
  readonly service: string;
  readonly scopes: ScopeTable;
  /** Scopes that the route needs. */
  readonly required: readonly string[];
}

/** The example of an answer with the deployment's name and scopes in the members that have them. */
function exampleOf(value: JsonValue, values: ExampleValues): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (isList(value)) return value.map((item) => exampleOf(item, values));
  const { service, scopes, required } = values;
  // In the list of `capabilities`, each route has its own.
  const listed = routes.find(({ path }) => path === value.route);
  const known: Readonly<Record<string, JsonValue>> = {
    service,
    scopes: [...new Set(routes.flatMap(({ route }) => scopes.required(route)))],
    default_required_scopes: scopes.defaults,
    required_scopes: listed === undefined ? required : scopes.own(listed.route),
    missing_scopes: required.slice(-1),
  };
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, known[name] ?? exampleOf(member as JsonValue, values)]),
  );
}

const isList = (value: JsonValue): value is readonly JsonValue[] => Array.isArray(value);

/** A copy of the answer, not shared with other routes. */
function ownAnswer(answer: Answer, shared: Readonly<Record<string, Answer>>): Described {
  const found = "$ref" in answer ? shared[answer.$ref.slice(answer.$ref.lastIndexOf("/") + 1)] : answer;
  return structuredClone(found) as Described;
}

/**
 * For each status, replaces the most common answer by a reference, if at least two routes share it. Returns the shared
 * answers by name, such as `Unauthorized`.
 */
function shareAnswers(answersOfRoutes: readonly Record<string, Answer>[]): Record<string, Answer> {
  const statuses = new Set(answersOfRoutes.flatMap((answers) => Object.keys(answers)));
  const shared: Record<string, Answer> = {};
  for (const status of [...statuses].sort()) {
    const texts = answersOfRoutes.map((answers) => JSON.stringify(answers[status]));
    const timesOf = (text: string | undefined) => texts.filter((other) => other === text && text !== undefined).length;
    const most = texts.reduce((best, text) => (timesOf(text) > timesOf(best) ? text : best));
    if (most === undefined || timesOf(most) < 2) continue;
    const name = (STATUS_CODES[status] ?? status).replaceAll(/[^A-Za-z]/g, "");
    shared[name] = parseJson(most) as Answer;
    answersOfRoutes.forEach((answers, i) => {
      if (texts[i] === most) answers[status] = { $ref: `#/components/responses/${name}` };
    });
  }
  return shared;
}

// Authentication of callers, as security schemes.

const token =
  "OAuth 2.0 access token as a JWT (RFC9068, verified as RFC8725 says) from the published issuer, obtained with the client " +
  "credentials grant by a confidential client of the tenant. Tenant, principal, subject and scopes come from the " +
  "token alone.";

const bearer = { type: "http", scheme: "bearer", bearerFormat: "JWT" };

/** Schemes by proof of possession. A call satisfies all of them at once. */
const tokenSchemes: Readonly<Record<ProofOfPossession, Readonly<Record<string, JsonObject>>>> = {
  mtls: {
    bearer: {
      ...bearer,
      description:
        `${token}\n\nThe token is bound to the client certificate that the caller presents in the TLS handshake ` +
        "(RFC 8705): it carries the claim `cnf.x5t#S256`. The caller sends no header with its certificate; the " +
        "trusted edge does.",
    },
    certificate: {
      type: "mutualTLS",
      description: "The client certificate that the token is bound to, presented at the TLS edge.",
    },
  },
  dpop: {
    dpop: {
      type: "http",
      scheme: "DPoP",
      bearerFormat: "JWT",
      description: `${token}\n\nThe token is bound to a key of the caller, who sends a proof with every call in the header \`DPoP\` (RFC 9449).`,
    },
  },
  none: { bearer: { ...bearer, description: `${token}\n\nIn this deployment the token is bound to nothing.` } },
};

/** Security of a deployment. */
interface Security {
  readonly schemes: JsonObject;
  /** Alternative requirements, the same for every route: tools expect scopes with OAuth 2.0 schemes only. */
  readonly requirements: readonly JsonObject[];
}

/**
 * Makes the schemes. If a trusted ingress names the caller, the caller itself sends no credentials that this document
 * could describe: that alternative is the empty requirement.
 */
function securityOf(authMode: AuthMode, proofOfPossession: ProofOfPossession): Security {
  const schemes = authMode === "trusted_headers" ? {} : tokenSchemes[proofOfPossession];
  const tokens = Object.fromEntries(Object.keys(schemes).map((name) => [name, []]));
  if (authMode === "bearer_token") return { schemes, requirements: [tokens] };
  return { schemes, requirements: authMode === "trusted_headers" ? [{}] : [tokens, {}] };
}

const expiredUnderDpop = underDpop(refusedToken("expired_token", "the access token has expired")) as ServiceError;

const dpopHeaders: JsonObject = {
  WwwAuthenticate: {
    description:
      "Credentials that the route requires, and the problem with those that were sent (RFC 9449, section 7.1). Where the " +
      "proof needs a nonce, or a newer one, the error is `use_dpop_nonce`.",
    required: true,
    schema: { type: "string" },
    example: expiredUnderDpop.details.challenge,
  },
  DpopNonce: {
    description: "The nonce that the next proof must carry (RFC 9449, section 9), if proofs need one.",
    schema: { type: "string" },
    example: "eyJ7S_zG.eyJH0-Z.HX4w-7v",
  },
};

// The forms of a document.

/** JSON, indented for readers. */
export function toJsonText(document: JsonObject): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** YAML of the same values. No aliases: many readers of OpenAPI do not follow them. */
export function toYamlText(document: JsonObject): string {
  // Through JSON, so that repeated values are written out and undefined ones omitted.
  return stringify(parseJson(JSON.stringify(document)), { aliasDuplicateObjects: false, lineWidth: 110 });
}
