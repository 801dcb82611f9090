/** Receipts: which ones a client believes, and of which answers. Keys of logs come from the operator. */
import assert from "node:assert/strict";
import type { JsonObject } from "@bufbuild/protobuf";
import { answerChanges, named, requestChanges } from "../changes.ts";
import { answered, both, type Case, call, receiptIs } from "../check.ts";
import { logKey } from "../log.ts";
import type { DriverOptions, Route } from "../protocol.ts";
import { resultMembers } from "../requests.ts";
import type { ReceiptScript } from "../script.ts";

const own = logKey("logs.example.com/0a1b");
const neighbours = logKey("logs.example.com/2c3d");
/** Another log's key, in the name of the tenant's log. */
const forgers = logKey(own.origin, "a forger's");
const otherRecord = "01890a5d-ac96-774b-bcce-999999999999";
const recorded = Object.keys(resultMembers) as Route[];

interface Row {
  readonly name: string;
  readonly says: string;
  readonly route?: Route;
  readonly receipts?: Partial<ReceiptScript>;
  /** Members of the answer that are not the sample's. */
  readonly answer?: JsonObject;
  readonly keys?: readonly string[];
  readonly caller?: NonNullable<DriverOptions["caller"]>;
  readonly understood?: readonly string[];
  readonly word?: "verified" | "refused" | "absent";
}

function of(detail: DriverOptions["receipts"], row: Row): Case {
  const {
    name,
    says,
    route = "protection-plan",
    receipts,
    answer,
    keys = [own.text],
    caller,
    understood,
    word = "refused",
  } = row;
  return {
    name: `receipts/${name}-${detail}`,
    says,
    request: {
      steps: [call(route)],
      options: {
        ...{ receipts: detail, log_keys: keys },
        ...(caller && { caller }),
        ...(understood && { understood_obligations: understood }),
      },
    },
    server: {
      receipts: { key: own, ...receipts },
      ...(answer && { acts: [{ does: "answer", change: answer }] }),
    },
    answers: [both(answered(), receiptIs(word))],
    // A whole one is what comes unasked.
    sees: ({ calls: [first] }) =>
      assert.equal(first?.headers["x-svc-receipt"] ?? "full", detail === "brief" ? "brief" : "full", "x-svc-receipt"),
  };
}

const edited = (edit: (receipt: JsonObject & { proof: string }) => JsonObject): Partial<ReceiptScript> => ({
  change: (receipt) => ({ ...receipt, ...edit(receipt as JsonObject & { proof: string }) }),
});

/** Of either kind. */
const rows: readonly Row[] = [
  ...recorded.map(
    (route): Row => ({
      name: `held-${route}`,
      says: "A receipt that the tenant's log signed, of the answer that it comes with, is verified; the answer is handed out.",
      route,
      word: "verified",
    }),
  ),
  {
    name: "one-of-several-keys",
    says: "Any of the keys given may have signed; one that was retired counts up to its size.",
    keys: [neighbours.text, `${own.text}@2`],
    word: "verified",
  },
  {
    name: "retired-key",
    says: "A key that was retired at a smaller size does not count.",
    keys: [`${own.text}@1`],
  },
  {
    name: "without-keys",
    says: "Where the program gives no key, receipts are not looked at.",
    keys: [],
    word: "absent",
  },
  {
    name: "another-log",
    says: "A receipt of a log whose key was not given, such as another tenant's, is refused.",
    receipts: { key: neighbours },
  },
  {
    name: "forged",
    says: "A receipt that another key signed in the name of the tenant's log is refused.",
    receipts: { key: forgers },
  },
  {
    name: "cut-proof",
    says: "A receipt whose proof was cut short is refused.",
    receipts: edited(({ proof }) => ({ proof: proof.slice(0, -20) })),
  },
  {
    name: "signed-by-another-log-too",
    says: "A checkpoint that a trusted key of another log signed, too, is refused.",
    keys: [own.text, neighbours.text],
    receipts: edited(({ proof }) => {
      const note = proof.slice(proof.indexOf("\n\n") + 2);
      return { proof: `${proof}${neighbours.sign(note.slice(0, note.lastIndexOf("\n\n") + 1))}` };
    }),
  },
  {
    name: "changed-leaf",
    says: "A proof that does not lead from the leaf to the signed root is refused.",
    receipts: edited(({ leafHash }) => ({
      leafHash: `${leafHash}`.replace(/^../, (two) => (two === "AA" ? "BB" : "AA")),
    })),
  },
  {
    name: "of-another-decision",
    says: "A receipt that holds, but is of another decision than the answer's, is refused.",
    receipts: { record: { record_id: otherRecord } },
  },
];

const caller = {
  tenant_id: "tenant-a",
  principal_id: "payroll-service",
  subject: "payroll",
  auth_source: "bearer_token",
};
const hourMs = 3_600_000;
const obligation = { id: "log-use", parameters: { audience: "dpo" } };

/** Whole receipts have the record, which must be the answer's. */
const contents: readonly Row[] = [
  {
    name: "cut-record",
    says: "Of leaf, opening and record a receipt has all or none.",
    receipts: edited(() => ({ opening: null })),
  },
  {
    name: "another-opening",
    says: "A record that its leaf does not commit to is refused.",
    receipts: edited(() => ({ opening: Buffer.alloc(32).toString("base64") })),
  },
  {
    name: "another-record",
    says: "A record that is not the leaf's is refused.",
    receipts: edited(() => ({ record: Buffer.from("{}").toString("base64") })),
  },
  {
    name: "obligations",
    says: "The obligations of the record are those of the answer.",
    receipts: { record: { outcome: { obligations: [obligation] } } },
    answer: { decision: { obligations: [obligation] } },
    word: "verified",
  },
  {
    name: "reasons-kept-back",
    says: "A deployment that keeps the reasons of the record to itself says so in the record.",
    receipts: { record: { outcome: { reasons_withheld: true } } },
    answer: { decision: { reasons: [] } },
    word: "verified",
  },
  {
    name: "reasons-emptied",
    says: "An answer that lost its reasons on the way is refused.",
    answer: { decision: { reasons: [] } },
  },
  {
    name: "understood-obligations",
    says: "Obligations that the client lists for the program are part of what was asked.",
    understood: ["log-use"],
    word: "verified",
  },
  {
    name: "own-caller",
    says: "A receipt of a record of the program's own calls is verified where the program knows who it is.",
    caller,
    word: "verified",
  },
  ...(["tenant_id", "principal_id"] as const).map(
    (member): Row => ({
      name: `of-another-callers-${member.replace("_id", "")}`,
      says: "An answer and its receipt that agree, but are another caller's than the program, are refused.",
      receipts: { record: member === "tenant_id" ? { tenant_id: "another" } : { caller: { principal_id: "another" } } },
      answer: { caller: member === "tenant_id" ? { tenantId: "another" } : { principalId: "another" } },
      caller,
    }),
  ),
  {
    name: "of-another-question",
    says: "An answer and its receipt that agree, but on another question than was asked, are refused.",
    receipts: { record: { request: { resource: { id: "cust-1" } } } },
    answer: { requestSummary: { resourceId: "cust-1" } },
  },
  {
    name: "of-an-earlier-call",
    says: "A decision of an hour before the call is another one.",
    receipts: { record: { recorded_at: new Date(Date.now() - hourMs).toISOString() } },
  },
  {
    name: "of-the-year-0",
    says: "A decision of a year that not every calendar has is another one.",
    receipts: { record: { recorded_at: "0000-02-29T12:00:00.000Z" } },
  },
  {
    name: "of-a-time-to-come",
    says: "A record of an hour after the call is none of it.",
    receipts: { record: { recorded_at: new Date(Date.now() + hourMs).toISOString() } },
  },
  {
    name: "signed-twice",
    says: "A proof with two signatures of the trusted key is refused: there is one text of a proof.",
    receipts: edited(({ proof }) => ({ proof: `${proof}${proof.split("\n").at(-2)}\n` })),
  },
  ...[
    ["tenant", { tenant_id: "tenant-b" }],
    ["principal", { caller: { principal_id: "another-principal" } }],
    ["kind", { kind: "evidence" }],
    ["call", { route: "/v1/sdk/policy-resolve" }],
    ["outcome", { outcome: { allow: false } }],
    ["revision", { outcome: { policy_revision: "sha256:4567" } }],
    ["reasons", { outcome: { reasons: ["platform/other"] } }],
    ["obligations", { outcome: { obligations: [obligation] } }],
    ["operation", { request: { operation: "access" } }],
    ["application", { request: { workload: { application: "another" } } }],
    ["resource-kind", { request: { resource: { kind: "another" } } }],
    ["resource-id", { request: { resource: { id: "cust-1" } } }],
  ].map(
    ([word, record]): Row => ({
      name: `another-${word}`,
      says: `A receipt whose record has another ${word} than the answer is refused.`,
      receipts: { record: record as object },
    }),
  ),
  {
    name: "another-obligation",
    says: "An obligation of the answer that the record has with another parameter is not the record's.",
    receipts: { record: { outcome: { obligations: [obligation] } } },
    answer: { decision: { obligations: [{ ...obligation, parameters: { audience: "everybody" } }] } },
  },
  ...(["artifact-register", "evidence"] as const).map(
    (route): Row => ({
      name: `not-accepted-${route}`,
      says: "An answer that says `accepted` of a record that does not is refused.",
      route,
      receipts: { record: { outcome: { accepted: false } } },
    }),
  ),
  {
    name: "another-digest-artifact-register",
    says: "A receipt of another artifact's registration is refused.",
    route: "artifact-register",
    receipts: { record: { request: { artifact_digest: `sha256:${"3d".repeat(32)}` } } },
  },
  {
    name: "another-event-evidence",
    says: "A receipt of another event is refused.",
    route: "evidence",
    receipts: { record: { request: { event_type: "access" } } },
  },
];

/** Each member of an answer that a record settles, changed by itself. */
function changedAnswers(route: Route): Case {
  const changes = answerChanges(route);
  return {
    name: `receipts/another-member-${route}-whole`,
    says: "An answer of which one member is not what the record settles is refused, whichever member it is.",
    request: { steps: changes.map(() => call(route)), options: { receipts: "whole", log_keys: [own.text] } },
    server: { receipts: { key: own }, acts: changes.map(({ change }) => ({ does: "answer", change })) },
    answers: changes.map(({ member }) => both(answered(), named(member, receiptIs("refused")))),
  };
}

/** Each member of a request, changed in the record alone. */
function changedRequests(route: Route): Case {
  const changes = requestChanges(route);
  return {
    name: `receipts/another-request-${route}-whole`,
    says: "A record of which one member of the request is not what was sent is refused, whichever member it is.",
    request: { steps: changes.map(() => call(route)), options: { receipts: "whole", log_keys: [own.text] } },
    server: { receipts: { key: own, records: changes.map(({ change }) => ({ request: change })) } },
    answers: changes.map(({ member }) => both(answered(), named(member, receiptIs("refused")))),
  };
}

export const receipts: readonly Case[] = [
  ...rows.flatMap((row) => [of("brief", row), of("whole", row)]),
  ...contents.map((row) => of("whole", row)),
  ...recorded.map(changedAnswers),
  ...recorded.map(changedRequests),
];
