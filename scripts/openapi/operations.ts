/** One operation of the document: a route with its scopes, request, answer and refusals. */

import type { RestRegistry } from "../../dev/rest-json.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { SdkRoute } from "../../src/base/vocabulary.ts";
import type { FurtherRoute } from "../../src/domain/routes.ts";
import type { ServedMethod, UnarySpec } from "../../src/transport/calls/methods.ts";
import type { RouteExample } from "./examples.ts";
import { errorAnswers, rateLimitHeaders, requestIdHeader } from "./refusals.ts";
import { type Comments, describeWithoutName, type Schemas } from "./schemas.ts";

/** The parts of a served method that the document needs. */
export type DocumentedMethod = Pick<ServedMethod, "rpc" | "verb" | "restPath"> & {
  readonly spec: Pick<UnarySpec, "method">;
};

/** A route in the document of its API. It has the request headers of the route that it is like. */
export interface DocumentedRoute extends FurtherRoute {
  readonly summary: string;
  readonly examples: readonly RouteExample[];
}

/** Shared inputs of all operations. */
interface OperationContext {
  readonly comments: Comments;
  readonly registry: RestRegistry;
  readonly schemas: Schemas;
  /** Whether the routes are bulk ones, whose items have their own keys and conflicts. */
  readonly isBulk: boolean;
}

/** The path item of a method. */
export function operation(method: DocumentedMethod, route: DocumentedRoute, context: OperationContext): JsonObject {
  const { comments, schemas, registry, isBulk } = context;
  const { method: desc } = method.spec;
  const { summary, like, examples } = route;
  const parameters = headersOfRoute(like, { isBulk });
  const refusals = errorAnswers(like);
  if (isBulk) refusals.delete(409);
  const item: JsonObject = {
    operationId: desc.localName,
    tags: [tagOf(method)],
    summary,
    description: describeWithoutName(comments, `${desc.parent.typeName}.${desc.name}`),
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
      ...Object.fromEntries(refusals),
    },
    "x-required-scopes": [],
  };
  return { [method.verb.toLowerCase()]: item };
}

/** Name of a method's group: `ProtectionService` is `Protection`. */
export function tagOf({ spec }: DocumentedMethod): string {
  return spec.method.parent.name.replace(/Service$/, "");
}

function requestBody(
  { spec }: DocumentedMethod,
  examples: readonly RouteExample[],
  { schemas, registry }: OperationContext,
): JsonObject {
  return {
    description: "",
    required: true,
    content: {
      "application/json": {
        schema: schemas.add(registry.message(spec.method.input), "request"),
        examples: examplesOf(examples, ({ request }) => request ?? {}),
      },
    },
    "x-max-bytes": 0,
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

/** The headers as components. */
export function headerParameters({ isBulk = false } = {}): JsonObject {
  return {
    ReceiptDetail: {
      name: "x-svc-receipt",
      in: "header",
      description:
        "How much of the receipt the answer carries: `full`, or `brief` without `leaf`, `opening` and `record`, which " +
        "then proves a position only, `cose`, which is `full` with a COSE receipt, " +
        `${isBulk ? "`range`, which is one proof for all items, " : ""}or \`none\`.`,
      schema: {
        type: "string",
        enum: ["full", "brief", "cose", ...(isBulk ? ["range"] : []), "none"],
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
function headersOfRoute(route: SdkRoute, { isBulk = false } = {}): readonly JsonObject[] {
  return [
    ...(recorded.has(route) ? [{ $ref: "#/components/parameters/ReceiptDetail" }] : []),
    ...(repeatable.has(route) && !isBulk ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
  ];
}
