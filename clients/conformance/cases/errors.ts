/** What an error says. */
import { answered, type Case, call, counts, failed } from "../check.ts";

const plan = call("protection-plan");
const page = (status: number) => ({ does: "page", status }) as const;

export const errors: readonly Case[] = [
  {
    name: "errors/reason-and-request-id",
    says: "An error has its code, the service's reason, and the id to name when asking the operator.",
    request: { steps: [plan] },
    server: { acts: [{ does: "refuse", code: "permission_denied", reason: "tenant_mismatch" }] },
    answers: [failed("permission_denied", "tenant_mismatch", { request_id: "request-42" })],
  },
  {
    name: "errors/missing-scopes",
    says: "It names the scopes that are missing.",
    request: { steps: [plan] },
    server: {
      acts: [
        {
          does: "refuse",
          code: "permission_denied",
          reason: "missing_scope",
          missingScopes: ["policy.read", "keys.use"],
        },
      ],
    },
    answers: [failed("permission_denied", "missing_scope", { missing_scopes: ["policy.read", "keys.use"] })],
  },
  {
    name: "errors/violations",
    says: "It names the members of the request that broke a rule, by their paths.",
    request: { steps: [plan] },
    server: {
      acts: [
        {
          does: "refuse",
          code: "invalid_argument",
          reason: "invalid_request",
          violations: [
            { field: "workload.application", rule: "string.min_len", message: "must not be empty" },
            { field: "attributes[3].value", rule: "string.max_len", message: "is too long" },
          ],
        },
      ],
    },
    answers: [
      failed("invalid_argument", "invalid_request", {
        violations: [{ field: "workload.application" }, { field: "attributes[3].value" }],
      }),
    ],
  },
  {
    name: "errors/unknown-reason",
    says: "A reason of a newer service is passed on as it is; the code says what to do.",
    request: { steps: [plan] },
    server: { acts: [{ does: "refuse", code: "permission_denied", reason: "reason_of_a_newer_service" }] },
    answers: [failed("permission_denied", "reason_of_a_newer_service")],
    sees: (seen) => counts(seen, 1),
  },
  ...[502, 503].map(
    (status): Case => ({
      name: `errors/page-with-${status}`,
      says: "A page of a proxy instead of an answer is `unavailable`, and tried again.",
      request: { steps: [plan] },
      server: { acts: [page(status)] },
      answers: [answered({ decision: { allow: true } })],
      sees: (seen) => counts(seen, 2),
    }),
  ),
  {
    name: "errors/page-every-time",
    says: "Where it is a page every time, the error is `unavailable` without a reason.",
    request: { steps: [plan], options: { max_attempts: 2 } },
    server: { acts: [page(502), page(503), page(503)] },
    answers: [failed("unavailable")],
    sees: (seen) => counts(seen, 2),
  },
];
