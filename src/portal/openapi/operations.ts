/** One operation of the document: a route with its scopes, request, answer and refusals. */
import type { JsonObject } from "../../base/json.ts";
import type { UnarySpec } from "../../transport/calls/context.ts";
import type { ServedMethod } from "../../transport/calls/methods.ts";
import type { RestRegistry } from "../../transport/rest/registry.ts";
import { type Comments, describeWithoutName } from "./comments.ts";
import { rateLimitHeaders, requestIdHeader } from "./error-answers.ts";
import type { RouteExample } from "./examples.ts";
import type { Schemas } from "./schemas.ts";
import type { SharedAnswers } from "./shared-answers.ts";

/** The parts of a served method that the document needs. */
export type DocumentedMethod = Pick<ServedMethod, "rpc" | "verb" | "restPath"> & {
  readonly spec: Pick<UnarySpec, "method">;
};

/** Shared inputs of all operations. */
export interface OperationContext {
  readonly comments: Comments;
  readonly registry: RestRegistry;
  readonly schemas: Schemas;
  readonly shared: SharedAnswers;
  /** Largest request body in bytes, by `Service/Method`. */
  readonly maxBodyBytes: (rpc: string) => number;
}

/** An operation's own parts, besides its messages. */
export interface OperationTexts {
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
