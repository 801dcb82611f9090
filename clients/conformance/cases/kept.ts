/** Capabilities and bootstrap, which a client keeps. */
import { all, answered, type Case, counts, failed } from "../check.ts";
import type { Step } from "../protocol.ts";

const refusal = { does: "refuse", code: "permission_denied", reason: "missing_scope" } as const;

export const kept: readonly Case[] = (["capabilities", "bootstrap"] as const).flatMap((name): Case[] => {
  const kept: Step = { call: `cached-${name}` };
  return [
    {
      name: `kept/${name}`,
      says: "Is asked for once, and kept.",
      request: { steps: [kept, kept, kept] },
      answers: [answered(), answered(), answered()],
      sees: (seen) => counts(seen, 1),
    },
    {
      name: `kept/${name}-at-once`,
      says: "Is asked for once by all who need it at the same time.",
      request: { steps: [{ call: "concurrent", calls: [kept, kept, kept, kept] }] },
      server: { acts: [{ does: "answer", afterMs: 200 }] },
      answers: [all(answered())],
      sees: (seen) => counts(seen, 1),
    },
    {
      name: `kept/${name}-stale`,
      says: "Is asked for again when its time is over; what is stale is not handed out.",
      request: { steps: [kept, { ...kept, pause_ms: 1_500 }], options: { cache_ms: 1_000 } },
      server: { acts: [{ does: "answer" }, { does: "answer", change: { service: "after" } }] },
      answers: [answered(), answered({ service: "after" })],
      sees: (seen) => counts(seen, 2),
    },
    {
      name: `kept/${name}-failure`,
      says: "A failure is not kept.",
      request: { steps: [kept, kept] },
      server: { acts: [refusal] },
      answers: [failed("permission_denied", "missing_scope"), answered()],
      sees: (seen) => counts(seen, 2),
    },
  ];
});
