/** Bulk calls: what single calls do, for each item. */
import assert from "node:assert/strict";
import type { JsonObject } from "@bufbuild/protobuf";
import { ItemOutcome } from "../../../gen/platform/bulk/v1/common_pb.ts";
import { jsonOf } from "../calls.ts";
import { answered, assertWithin, type Case, call, counts, failed, noFaults, notPermitted } from "../check.ts";
import { type BulkRoute, bulkRoutes } from "../protocol.ts";
import { itemsOf, resultMembers, singleRoutes } from "../requests.ts";
import type { Act, Seen } from "../script.ts";

const decisionRoutes = bulkRoutes.filter((route) => resultMembers[singleRoutes[route]] === "decision");
const recordRoutes = bulkRoutes.filter((route) => !decisionRoutes.includes(route));
const unavailable = { does: "refuse", code: "unavailable", reason: "store_unavailable" } as const;
const options = { understood_obligations: ["note"] };
const note = { id: "note", parameters: { audience: "security" } };

/** The items of a call as they arrived, in protobuf JSON. */
function itemsSeen({ calls }: Seen, attempt = 0): JsonObject[] {
  const { route, message } = calls[attempt] ?? {};
  assert.ok(message !== undefined);
  return jsonOf(route as BulkRoute, message).items as JsonObject[];
}

const keysSeen = (seen: Seen, attempt = 0) => itemsSeen(seen, attempt).map(({ idempotencyKey }) => idempotencyKey);

const sending: readonly Case[] = bulkRoutes.map((route) => {
  const member = resultMembers[singleRoutes[route]] as string;
  const isDecision = member === "decision";
  const each = { outcome: ItemOutcome.ANSWERED, [member]: { [isDecision ? "allow" : "accepted"]: true } };
  return {
    name: `${route}`,
    says: "Sends all items in one call, as given, and hands out the answer, whose items stand in their order.",
    request: { steps: [call(route)] },
    answers: [answered({ caller: { tenantId: "tenant-a" }, items: [each, each, each] })],
    sees(seen) {
      noFaults(seen);
      counts(seen, 1);
      assert.equal(seen.calls[0]?.route, route);
      assertWithin(itemsOf(route, 3), itemsSeen(seen), "items");
      assert.equal(seen.records.size, 3, "records");
    },
  };
});

const deciding: readonly Case[] = decisionRoutes.flatMap((route): Case[] => [
  {
    name: `${route}-understood`,
    says: "Every item lists the obligations that the program meets, unless it lists some itself.",
    request: {
      steps: [
        call(route, {
          require_allow: true,
          request: {
            items: itemsOf(route, 3).map((item, i) => (i === 1 ? { ...item, understoodObligations: ["seal"] } : item)),
          },
        }),
      ],
      options,
    },
    server: {
      acts: [
        {
          does: "answer",
          items: { 0: { decision: { obligations: [note] } }, 1: { decision: { obligations: [{ id: "seal" }] } } },
        },
      ],
    },
    answers: [answered({ items: [{}, {}, {}] })],
    sees: (seen) =>
      assert.deepEqual(
        itemsSeen(seen).map(({ understoodObligations }) => understoodObligations),
        [["note"], ["seal"], ["note"]],
      ),
  },
  {
    name: `${route}-not-permitted`,
    says: "The decision of an item permits what that of a single call would: no denial, and nothing with an unknown obligation.",
    request: {
      steps: [call(route, { require_allow: true }), call(route, { require_allow: true }), call(route)],
      options,
    },
    server: {
      acts: [
        { does: "answer", items: { 1: { decision: { allow: false, reasons: ["tenant/no-exports"] } } } },
        { does: "answer", items: { 2: { decision: { obligations: [note, { id: "burn-after-reading" }] } } } },
        { does: "answer", items: { 1: { decision: { allow: false, reasons: ["tenant/no-exports"] } } } },
      ],
    },
    answers: [
      notPermitted(["tenant/no-exports"], []),
      notPermitted(["platform/allow"], ["burn-after-reading"]),
      answered({
        items: [{ decision: { allow: true } }, { decision: { allow: false } }, { decision: { allow: true } }],
      }),
    ],
  },
  {
    name: `${route}-stopped`,
    says: "What ends the call early is sent, and items that were not evaluated are handed out as such.",
    request: { steps: [call(route, { request: { items: itemsOf(route, 3), stopOnFirstDeny: true } })] },
    server: {
      acts: [
        {
          does: "answer",
          items: { 1: { decision: { allow: false } }, 2: { outcome: "ITEM_OUTCOME_NOT_EVALUATED" } },
        },
      ],
    },
    answers: [
      answered({
        items: [
          { outcome: ItemOutcome.ANSWERED },
          { outcome: ItemOutcome.ANSWERED, decision: { allow: false } },
          { outcome: ItemOutcome.NOT_EVALUATED },
        ],
      }),
    ],
    sees({ calls: [arrived] }) {
      assert.ok(arrived?.message !== undefined);
      assert.equal(jsonOf(route, arrived.message).stopOnFirstDeny, true);
    },
  },
]);

const recording: readonly Case[] = recordRoutes.flatMap((route): Case[] => [
  {
    name: `${route}-keys-over-attempts`,
    says: "Each item without an idempotency key gets one of its own, of 1 to 128 visible characters; all are the same over all attempts.",
    request: {
      steps: [
        call(route, {
          request: {
            items: itemsOf(route, 3).map((item, i) => (i === 1 ? { ...item, idempotencyKey: "order-1" } : item)),
          },
        }),
      ],
    },
    server: { acts: [unavailable, { does: "commit-and-reset" }] },
    answers: [answered({ items: [{}, { idempotencyKey: "order-1" }, {}] })],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3);
      const [first, given, last] = keysSeen(seen);
      assert.equal(given, "order-1");
      for (const key of [first, last]) assert.match(String(key), /^[\x21-\x7e]{16,128}$/);
      assert.notEqual(first, last);
      for (const attempt of [1, 2]) assert.deepEqual(keysSeen(seen, attempt), [first, given, last]);
      assert.equal(seen.records.size, 3, "records");
    },
  },
  {
    name: `${route}-refused-item`,
    says: "An item that is refused spoils nothing: it is handed out with its error, among the others.",
    request: { steps: [call(route)] },
    server: {
      acts: [
        {
          does: "answer",
          items: {
            1: {
              outcome: "ITEM_OUTCOME_REFUSED",
              error: { code: "invalid_argument", reason: "invalid_request", violations: [{ field: "event.workload" }] },
            },
          },
        },
      ],
    },
    answers: [
      answered({
        items: [
          { outcome: ItemOutcome.ANSWERED },
          { outcome: ItemOutcome.REFUSED, error: { violations: [{ field: "event.workload" }] } },
          { outcome: ItemOutcome.ANSWERED },
        ],
      }),
    ],
  },
]);

const plans = call("bulk/protection-plans");
const times = (count: number, act: Act): Act[] => Array.from({ length: count }, () => act);

const whole: readonly Case[] = [
  {
    name: "bulk/retried",
    says: "A call of decisions that the service could not take now is made again, as often as allowed.",
    request: { steps: [plans, plans], options: { max_attempts: 3 } },
    server: { acts: [...times(2, unavailable), { does: "answer" }, ...times(9, unavailable)] },
    answers: [answered({ items: [{}, {}, {}] }), failed("unavailable", "store_unavailable")],
    sees: (seen) => counts(seen, 6),
  },
  {
    name: "bulk/refused",
    says: "A call that is refused as a whole fails as a single call does.",
    request: { steps: [plans, call("bulk/evidence")] },
    server: {
      acts: [
        { does: "refuse", code: "permission_denied", reason: "missing_scope", missingScopes: ["policy.read"] },
        { does: "refuse", code: "resource_exhausted", reason: "rate_limited" },
      ],
    },
    answers: [
      failed("permission_denied", "missing_scope", { missing_scopes: ["policy.read"] }),
      failed("resource_exhausted", "rate_limited"),
    ],
    sees: (seen) => counts(seen, 2),
  },
  {
    name: "bulk/expired-token",
    says: "A token that has expired is replaced, once.",
    request: { steps: [plans] },
    server: { acts: [{ does: "refuse", code: "unauthenticated", reason: "expired_token" }] },
    answers: [answered({ items: [{}, {}, {}] })],
    sees: (seen) => counts(seen, 2, 2),
  },
  {
    name: "bulk/dpop",
    says: "It has a proof of its own for each attempt, with the nonce that was asked for.",
    request: { steps: [plans], dpop: true },
    server: { nonces: ["first"], acts: [{ does: "answer" }, { does: "answer" }] },
    answers: [answered({ items: [{}, {}, {}] })],
    sees: ({ calls }) => assert.equal(calls.at(-1)?.proof?.nonce, "first"),
  },
  {
    name: "bulk/deadline",
    says: "The deadline covers all attempts.",
    request: { steps: [plans], options: { deadline_ms: 1_500 } },
    server: { acts: [unavailable, ...times(9, { does: "answer", afterMs: 60_000 })] },
    answers: [failed("deadline_exceeded")],
  },
  {
    name: "bulk/newer",
    says: "Members of a newer service are ignored.",
    request: { steps: [plans] },
    server: { acts: [{ does: "answer", newer: true }] },
    answers: [answered({ items: [{}, {}, {}] })],
  },
];

export const bulk: readonly Case[] = [...sending, ...deciding, ...recording, ...whole];
