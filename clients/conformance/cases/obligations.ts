/** What a decision demands. */
import assert from "node:assert/strict";
import { jsonOf } from "../calls.ts";
import { answered, type Case, call, notPermitted } from "../check.ts";
import type { Route } from "../protocol.ts";
import type { Act } from "../script.ts";

const decisionRoutes: readonly Route[] = ["protection-plan", "policy-resolve", "key-access-plan"];
const demanding = (...obligations: readonly object[]): Act => ({
  does: "answer",
  change: { decision: { obligations } },
});
const options = { understood_obligations: ["note"] };
const note = { id: "note", parameters: { audience: "security" } };

export const obligations: readonly Case[] = [
  ...decisionRoutes.flatMap((route): Case[] => [
    {
      name: `obligations/${route}-allowed`,
      says: "An allow that demands nothing permits.",
      request: { steps: [call(route, { require_allow: true })], options },
      answers: [answered({ decision: { allow: true } })],
    },
    {
      name: `obligations/${route}-understood`,
      says: "Decisions are asked for with the ids of the obligations that the program meets; one of those permits.",
      request: { steps: [call(route, { require_allow: true })], options },
      server: { acts: [demanding(note)] },
      answers: [answered({ decision: { allow: true, obligations: [note] } })],
      sees({ calls: [arrived] }) {
        assert.ok(arrived?.message !== undefined);
        assert.deepEqual(jsonOf(route, arrived.message).understoodObligations, ["note"]);
      },
    },
    {
      name: `obligations/${route}-unknown`,
      says: "An allow that demands anything else permits nothing, and the ids that are unknown are named.",
      request: { steps: [call(route, { require_allow: true })], options },
      server: { acts: [demanding(note, { id: "burn-after-reading" })] },
      answers: [notPermitted(["platform/allow"], ["burn-after-reading"])],
    },
    {
      name: `obligations/${route}-denied`,
      says: "A denial permits nothing, and its reasons are named; it is an answer if the caller does not require an allow.",
      request: { steps: [call(route, { require_allow: true }), call(route)], options },
      server: {
        acts: [
          { does: "answer", change: { decision: { allow: false, reasons: ["tenant/no-exports"] } } },
          { does: "answer", change: { decision: { allow: false, reasons: ["tenant/no-exports"] } } },
        ],
      },
      answers: [notPermitted(["tenant/no-exports"], []), answered({ decision: { allow: false } })],
    },
  ]),
  {
    name: "obligations/none-understood",
    says: "A program that lists nothing understands nothing.",
    request: { steps: [call("protection-plan", { require_allow: true })] },
    server: { acts: [demanding(note)] },
    answers: [notPermitted(["platform/allow"], ["note"])],
  },
  {
    name: "obligations/of-the-request",
    says: "A request that lists obligations itself is sent as it is, and what it lists is what is understood.",
    request: {
      steps: [
        call("protection-plan", {
          require_allow: true,
          request: {
            ...call("protection-plan").request,
            understoodObligations: ["seal"],
          },
        }),
      ],
      options,
    },
    server: { acts: [demanding({ id: "seal" })] },
    answers: [answered({ decision: { allow: true } })],
    sees({ calls: [arrived] }) {
      assert.ok(arrived?.message !== undefined);
      assert.deepEqual(jsonOf("protection-plan", arrived.message).understoodObligations, ["seal"]);
    },
  },
  {
    name: "obligations/unknown-parameter",
    says: "Where a program says which parameters it knows of an obligation, another parameter makes it unknown.",
    request: {
      steps: [call("protection-plan", { require_allow: true }), call("protection-plan", { require_allow: true })],
      options: { ...options, understood_parameters: { note: ["audience"] } },
    },
    server: {
      acts: [demanding(note), demanding({ id: "note", parameters: { audience: "security", within_hours: "24" } })],
    },
    answers: [answered({ decision: { allow: true } }), notPermitted(["platform/allow"], ["note"])],
  },
];
