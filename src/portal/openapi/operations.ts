/** One operation of the document: a route with its scopes, request, answer and refusals. */
import { STATUS_CODES } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "../../base/json.ts";
import type { AuthMode, ProofOfPossession, SdkRoute } from "../../base/vocabulary.ts";
import type { UnarySpec } from "../../transport/calls/context.ts";
import type { ServedMethod } from "../../transport/calls/methods.ts";
import type { RestRegistry } from "../../transport/rest/registry.ts";
import type { RouteExample } from "./examples.ts";
import { rateLimitHeaders, requestIdHeader } from "./refusals.ts";
import { type Comments, describeWithoutName, type Schemas } from "./schemas.ts";

/** The parts of a served method that the document needs. */
export type DocumentedMethod = Pick<ServedMethod, "rpc" | "verb" | "restPath"> & {
  readonly spec: Pick<UnarySpec, "method">;
};

/** Shared inputs of all operations. */
interface OperationContext {
  readonly comments: Comments;
  readonly registry: RestRegistry;
  readonly schemas: Schemas;
  readonly shared: SharedAnswers;
  /** Largest request body in bytes, by `Service/Method`. */
  readonly maxBodyBytes: (rpc: string) => number;
}

/** An operation's own parts, besides its messages. */
interface OperationTexts {
  readonly summary: string;
  /** Scopes, default ones included. */
  readonly required: readonly string[];
  /** References to the headers that it reads. */
  readonly parameters: readonly JsonObject[];
  readonly examples: readonly RouteExample[];
  readonly refusals: ReadonlyMap<number, JsonObject>;
}

/** The path item of a method. */
export function operation(method: DocumentedMethod, texts: OperationTexts, context: OperationContext): JsonObject {
  const { comments, schemas, registry } = context;
  const { method: desc } = method.spec;
  const { summary, required, parameters, examples, refusals } = texts;
  const item: JsonObject = {
    operationId: desc.localName,
    tags: [tagOf(method)],
    summary,
    description: `${describeWithoutName(comments, `${desc.parent.typeName}.${desc.name}`)}\n\n${scopesText(required)}`,
    ...(parameters.length > 0 && { parameters }),
    ...(method.verb === "POST" && { requestBody: requestBody(method, examples, context) }),
    responses: {
      "200": {
        description: "OK",
        headers: { ...requestIdHeader, ...rateLimitHeaders },
        content: {
          "application/json": {
            schema: schemas.add(registry.message(desc.output), "response"),
            examples: examplesOf(examples, ({ answer }) => answer),
          },
        },
      },
      ...context.shared.share(refusals),
    },
    "x-required-scopes": required,
  };
  return { [method.verb.toLowerCase()]: item };
}

/** Name of a method's group: `ProtectionService` is `Protection`. */
export function tagOf({ spec }: DocumentedMethod): string {
  return spec.method.parent.name.replace(/Service$/, "");
}

function scopesText(scopes: readonly string[]): string {
  if (scopes.length === 0) return "Needs no scope.";
  return `Needs the scope${scopes.length === 1 ? "" : "s"} ${scopes.map((scope) => `\`${scope}\``).join(", ")}.`;
}

function requestBody(
  { rpc, spec }: DocumentedMethod,
  examples: readonly RouteExample[],
  { schemas, registry, maxBodyBytes }: OperationContext,
): JsonObject {
  const maxBytes = maxBodyBytes(rpc);
  return {
    description: `A JSON object in UTF-8, at most ${maxBytes.toLocaleString("en-US")} bytes.`,
    required: true,
    content: {
      "application/json": {
        schema: schemas.add(registry.message(spec.method.input), "request"),
        examples: examplesOf(examples, ({ request }) => request ?? {}),
      },
    },
    "x-max-bytes": maxBytes,
  };
}

function examplesOf(examples: readonly RouteExample[], pick: (example: RouteExample) => JsonObject): JsonObject {
  return Object.fromEntries(
    examples.map((example) => [example.name, { summary: example.summary, value: pick(example) }]),
  );
}

// Request headers that callers may send besides the body.

/** Routes whose answers carry a receipt, and those of them that can be repeated under one key. */
const recorded: ReadonlySet<SdkRoute> = new Set([
  "protection-plan",
  "policy-resolve",
  "key-access-plan",
  "artifact-register",
  "evidence",
]);
const repeatable: ReadonlySet<SdkRoute> = new Set(["artifact-register", "evidence"]);

/**
 * The headers as components.
 *
 * @param headerPrefix lowercase prefix of the service's own headers
 * @param options whether the routes are bulk ones, whose items have their own keys
 */
export function headerParameters(headerPrefix: string, { isBulk = false } = {}): JsonObject {
  return {
    ReceiptDetail: {
      name: `${headerPrefix}receipt`,
      in: "header",
      description:
        "How much of the receipt the answer carries: `full`, or `brief` without `leaf`, `opening` and `record`, which " +
        `then proves a position only, ${isBulk ? "`range`, which is one proof for all items, " : ""}or \`none\`.`,
      schema: {
        type: "string",
        enum: ["full", "brief", ...(isBulk ? ["range"] : []), "none"],
        default: isBulk ? "brief" : "full",
      },
      "x-additive": true,
    },
    ...(!isBulk && { IdempotencyKey: idempotencyKey }),
  };
}

const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "Makes a call safe to repeat: under the same key, the same request gives the answer of the first time, receipt " +
    "included. A key holds for one principal and one route, for 24 hours at least. Make it random.",
  schema: { type: "string", minLength: 1, maxLength: 128, pattern: "^[\\x21-\\x7e]{1,128}$" },
  example: "5f0c4f0e-6d0a-4a5e-9d3e-1f2f5e0b7a11",
  "x-additive": true,
};

/** References to the headers that a route reads. */
export function headersOfRoute(route: SdkRoute, { isBulk = false } = {}): readonly JsonObject[] {
  return [
    ...(recorded.has(route) ? [{ $ref: "#/components/parameters/ReceiptDetail" }] : []),
    ...(repeatable.has(route) && !isBulk ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
  ];
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
export function createSecurity(authMode: AuthMode, proofOfPossession: ProofOfPossession): Security {
  const schemes = authMode === "trusted_headers" ? {} : tokenSchemes[proofOfPossession];
  const tokens = Object.fromEntries(Object.keys(schemes).map((name) => [name, []]));
  if (authMode === "bearer_token") return { schemes, requirements: [tokens] };
  return { schemes, requirements: authMode === "trusted_headers" ? [{}] : [tokens, {}] };
}

// Identical error answers of several routes, stored once under `components`.

/** Answers of one route by status. */
type Answers = ReadonlyMap<number, JsonObject>;

export class SharedAnswers {
  /** The shared answers by name, such as `Unauthorized`. */
  readonly components: JsonObject;
  readonly #shared = new Map<number, JsonObject>();

  /** Picks, for each status, the most frequent answer, if more than one route gives it. */
  constructor(routes: readonly Answers[]) {
    for (const status of new Set(routes.flatMap((answers) => [...answers.keys()]))) {
      const [most, times] = mostFrequent(routes.flatMap((answers) => withStatus(answers, status)));
      if (times > 1) this.#shared.set(status, most);
    }
    const named = [...this.#shared].sort(([a], [b]) => a - b).map(([status, answer]) => [nameOf(status), answer]);
    this.components = Object.fromEntries(named) as JsonObject;
  }

  /** The answers of a route, with references in place of the shared ones. */
  share(answers: Answers): JsonObject {
    const entries = [...answers].map(([status, answer]) => [
      status,
      isDeepStrictEqual(this.#shared.get(status), answer)
        ? { $ref: `#/components/responses/${nameOf(status)}` }
        : answer,
    ]);
    return Object.fromEntries(entries) as JsonObject;
  }
}

function withStatus(answers: Answers, status: number): JsonObject[] {
  const answer = answers.get(status);
  return answer === undefined ? [] : [answer];
}

function mostFrequent(answers: readonly JsonObject[]): [JsonObject, number] {
  const counts = answers.map((answer) => answers.filter((other) => isDeepStrictEqual(answer, other)).length);
  const most = Math.max(...counts);
  return [answers[counts.indexOf(most)] as JsonObject, most];
}

function nameOf(status: number): string {
  return (STATUS_CODES[status] ?? String(status)).replaceAll(/[^A-Za-z]/g, "");
}
