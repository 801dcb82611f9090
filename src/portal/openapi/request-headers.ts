/** Request headers that callers may send besides the body. */
import type { JsonObject } from "../../base/json.ts";
import type { SdkRoute } from "../../base/vocabulary.ts";

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
