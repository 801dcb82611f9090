/** Receipts of items, on bulk calls and on streams: which ones a client believes, and of which items. */
import assert from "node:assert/strict";
import type { JsonObject } from "@bufbuild/protobuf";
import { itemChanges, named } from "../changes.ts";
import { answered, both, type Case, call, receiptIs } from "../check.ts";
import { stream, streamed } from "../check-streams.ts";
import { logKey } from "../log.ts";
import { type BulkRoute, bulkRoutes, type DriverOptions, type StepAnswer } from "../protocol.ts";
import { itemsOf } from "../requests.ts";
import type { ReceiptScript, Seen } from "../script.ts";

type Detail = DriverOptions["receipts"];

const own = logKey("logs.example.com/0a1b");
const neighbours = logKey("logs.example.com/2c3d");
const details: readonly Detail[] = ["brief", "whole"];
const refusedItem: JsonObject = {
  outcome: "ITEM_OUTCOME_REFUSED",
  error: { code: "invalid_argument", reason: "invalid_request" },
};

interface Row {
  readonly name: string;
  readonly says: string;
  /** Members of each item, which then all ask the same. */
  readonly alike?: JsonObject;
  readonly receipts?: Partial<ReceiptScript>;
  /** Members of the answer that are not the sample's. */
  readonly answer?: JsonObject;
  readonly keys?: readonly string[];
  readonly caller?: NonNullable<DriverOptions["caller"]>;
  readonly word: NonNullable<StepAnswer["receipt"]>;
}

/** Brief ones come unasked. */
function asksFor(detail: Detail, { calls: [first] }: Seen): void {
  assert.equal(first?.headers["x-svc-receipt"] ?? "brief", detail === "brief" ? "brief" : "full", "x-svc-receipt");
}

function ofCall(route: BulkRoute, detail: Detail, row: Row): Case {
  const { name, says, alike, receipts, answer, keys = [own.text], word } = row;
  const [first] = itemsOf(route, 1);
  const items = alike && Array.from({ length: 3 }, () => ({ ...first, ...alike }));
  return {
    name: `${route}-receipts-${name}-${detail}`,
    says,
    request: { steps: [call(route, items && { request: { items } })], options: { receipts: detail, log_keys: keys } },
    server: { receipts: { key: own, ...receipts }, ...(answer && { acts: [{ does: "answer", change: answer }] }) },
    answers: [both(answered({ items: [{}, {}, {}] }), receiptIs(word))],
    sees: (seen) => asksFor(detail, seen),
  };
}

function ofStream(detail: Detail, { name, says, receipts, keys = [own.text], caller, word }: Row): Case {
  return {
    name: `streams/receipts-${name}-${detail}`,
    says,
    request: {
      steps: [stream("events", 3)],
      options: { receipts: detail, log_keys: keys, ...(caller && { caller }) },
    },
    server: { receipts: { key: own, ...receipts } },
    answers: [both(streamed(), receiptIs(word))],
    sees(seen) {
      asksFor(detail, seen);
      assert.equal(seen.calls.length, 1, "streams that were opened");
    },
  };
}

const held: Row = {
  name: "held",
  says: "Receipts that the tenant's log signed, each of the item that it comes with, are verified.",
  word: "verified",
};

/** Of either detail. */
const rows: readonly Row[] = [
  {
    name: "without-keys",
    says: "Where the program gives no key, receipts are not looked at.",
    keys: [],
    word: "absent",
  },
  {
    name: "another-log",
    says: "Receipts of a log whose key was not given are refused.",
    receipts: { key: neighbours },
    word: "refused",
  },
  {
    name: "cut-proof",
    says: "One receipt that does not hold is refused; the other items are what they are.",
    receipts: { only: 1, change: (receipt) => ({ ...receipt, proof: String(receipt.proof).slice(0, -20) }) },
    word: "refused",
  },
];

const another = (word: string, record: object): Row => ({
  name: `another-${word}`,
  says: `A receipt whose record has another ${word} than the item and its answer is refused.`,
  receipts: { only: 1, record },
  word: "refused",
});

const anotherDecision: Row = {
  ...another("decision", { record_id: "01890a5d-ac96-774b-bcce-999999999999" }),
  says: "A receipt that holds, but is of another decision than its item's, is refused.",
};

const withoutCaller: Row = {
  name: "no-caller",
  says: "An answer that lost its caller on the way is refused.",
  answer: { caller: null },
  word: "refused",
};

const shared: Row = {
  name: "shared",
  says: "One record does not answer two items, even if they ask the same.",
  alike: {},
  receipts: { isShared: true },
  word: "refused",
};

const oneKey: Row = {
  name: "one-key",
  says: "Items that the program sends under one idempotency key have one record.",
  alike: { idempotencyKey: "order-1" },
  word: "verified",
};

const keyedBefore: Row = {
  name: "keyed-before",
  says: "Items with a key of the program's own may have been recorded an hour before the call.",
  alike: { idempotencyKey: "order-1" },
  receipts: { record: { recorded_at: new Date(Date.now() - 3_600_000).toISOString() } },
  word: "verified",
};

const requested: readonly Row[] = [
  another("application", { request: { workload: { application: "another" } } }),
  another("resource-kind", { request: { resource: { kind: "another" } } }),
  another("resource-id", { request: { resource: { id: "record-2" } } }),
  another("label", { request: { labels: ["public"] } }),
  another("attribute", { request: { attributes: { region: "us" } } }),
  another("purpose", { request: { purpose: "another" } }),
];
const digest = another("digest", { request: { artifact_digest: `sha256:${"3d".repeat(32)}` } });
const toCome = another("time", { recorded_at: new Date(Date.now() + 3_600_000).toISOString() });
/** Of the program itself, as it knows. */
const ownCaller = {
  tenant_id: "tenant-a",
  principal_id: "payroll-service",
  subject: "payroll",
  auth_source: "bearer_token",
};
const called: readonly Row[] = [
  another("tenant", { tenant_id: "tenant-b" }),
  another("principal", { caller: { principal_id: "another-principal" } }),
];

/** Whole receipts have the record, which must be the item's. */
const wholeDecisions: readonly Row[] = [
  ...called,
  another("kind", { kind: "evidence" }),
  another("call", { route: "/v1/sdk/policy-resolve" }),
  another("outcome", { outcome: { allow: false } }),
  another("revision", { outcome: { policy_revision: "sha256:4567" } }),
  another("reasons", { outcome: { reasons: ["platform/other"] } }),
  another("obligations", { outcome: { obligations: [{ id: "log-use", parameters: {} }] } }),
  another("operation", { request: { operation: "access" } }),
  ...requested,
];
const event = another("event", { request: { event_type: "access" } });
const rejected = another("outcome", { outcome: { accepted: false } });

export const bulkReceipts: readonly Case[] = [
  ...details.flatMap((detail) => [
    ...bulkRoutes.flatMap((route) => [held, shared].map((row) => ofCall(route, detail, row))),
    ...(["bulk/evidence", "bulk/artifact-registrations"] as const).map((route) => ofCall(route, detail, oneKey)),
    ...[...rows, anotherDecision].map((row) => ofCall("bulk/protection-plans", detail, row)),
    ...[held, ...rows].map((row) => ofStream(detail, row)),
  ]),
  ...[...wholeDecisions, toCome].map((row) => ofCall("bulk/protection-plans", "whole", row)),
  ...bulkRoutes.map((route) => ofCall(route, "whole", withoutCaller)),
  ...(["bulk/evidence", "bulk/artifact-registrations"] as const).map((route) => ofCall(route, "whole", keyedBefore)),
  ...[...called, ...requested, event, rejected, digest].map((row) => ofCall("bulk/evidence", "whole", row)),
  ...[...called, ...requested, rejected, digest].map((row) => ofCall("bulk/artifact-registrations", "whole", row)),
  // Acknowledgements do not say who the caller is.
  ...[...requested, event, rejected, digest, toCome].map((row) => ofStream("whole", row)),
  // The program may know who it is.
  ...called.map((row) => ofStream("whole", { ...row, caller: ownCaller })),
  ofStream("whole", { ...held, name: "own-caller", caller: ownCaller }),
  ...bulkRoutes.map((route): Case => {
    const changes = itemChanges(route);
    return {
      name: `${route}-receipts-another-member-whole`,
      says: "An item of which one member is not what its record settles is refused, whichever member it is.",
      request: { steps: changes.map(() => call(route)), options: { receipts: "whole", log_keys: [own.text] } },
      server: { receipts: { key: own }, acts: changes.map(({ change }) => ({ does: "answer", items: { 1: change } })) },
      answers: changes.map(({ member }) => both(answered(), named(member, receiptIs("refused")))),
    };
  }),
  {
    name: "bulk/receipts-of-answered-items",
    says: "Items that were not answered have no receipt; where none was answered, none is verified.",
    request: {
      steps: [call("bulk/evidence"), call("bulk/evidence")],
      options: { receipts: "brief", log_keys: [own.text] },
    },
    server: {
      receipts: { key: own },
      acts: [
        { does: "answer", items: { 1: refusedItem } },
        { does: "answer", items: { 0: refusedItem, 1: refusedItem, 2: refusedItem } },
      ],
    },
    answers: [receiptIs("verified"), receiptIs("absent")],
  },
  {
    name: "bulk/a-thousand",
    says: "An answer of a thousand items with whole receipts, of six megabytes, is taken.",
    request: {
      steps: [call("bulk/evidence", { request: { items: manyEvents(1_000) } })],
      options: { receipts: "whole" },
    },
    server: { receipts: { key: own } },
    answers: [answered({ items: Array.from({ length: 1_000 }, () => ({ ingestion: { accepted: true } })) })],
    sees: ({ calls }) => assert.equal(calls.length, 1),
  },
];

function manyEvents(count: number): JsonObject[] {
  const [{ event: sample = {} } = {}] = itemsOf("bulk/evidence", 1) as { readonly event?: JsonObject }[];
  return Array.from({ length: count }, () => ({ event: { ...sample, attributes: { note: "x".repeat(2_000) } } }));
}
