/** api/ledger.schema.json describes what the service writes: records of every kind, receipts, and lines of packs. */
import { readFileSync } from "node:fs";
import { appendFile, cp } from "node:fs/promises";
import { join } from "node:path";
import { Ajv2020, type AnySchemaObject } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import vectors from "../../clients/conformance/vectors/ranges.json" with { type: "json" };
import { sampleCalls } from "../../dev/requests.ts";
import { adoptionRecord, clockAcceptanceRecord, holdReleaseRecord } from "../../src/ledger/record/operator-records.ts";
import { findReceipt, readExactLeaf, readExactRecord } from "../../src/ledger/record/receipt.ts";
import { seededRandom } from "../contract/ledger-records.ts";
import { folderForFile } from "../harness/folder.ts";
import { randomOf } from "../harness/fuzz/random.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { type MemoryLog, memoryLog, moment } from "../unit/ledger/pack/memory-log.ts";
import { changedLines } from "../unit/ledger/pack/mutations.ts";
import { linesIn, sealLines, verifyText } from "../unit/ledger/pack/packs.ts";
import { decision, evidence } from "../unit/ledger/pack/records.ts";

const document = JSON.parse(readFileSync(new URL("../../api/ledger.schema.json", import.meta.url), "utf8"));

/** The same, with no member in a request or an outcome that it does not name: so that no new one goes unwritten. */
function closed(schema: AnySchemaObject): AnySchemaObject {
  const close = (value: unknown, name = ""): unknown => {
    if (Array.isArray(value)) return value.map((item) => close(item));
    if (typeof value !== "object" || value === null) return value;
    const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, close(inner, key)]));
    const isOpen =
      (name === "request" || name === "outcome") && "properties" in copy && !("additionalProperties" in copy);
    return isOpen ? { ...copy, unevaluatedProperties: false } : copy;
  };
  return close(schema) as AnySchemaObject;
}

const ajv = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allErrors: true });
ajv.addSchema(closed(document));

function problemsOf(name: string, value: unknown): readonly string[] {
  const validate = ajv.getSchema(`${document.$id}#/$defs/${name}`);
  if (validate === undefined) throw new Error(`no schema ${name}`);
  validate(value);
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** Which kind a record is of, once it, its leaf and its receipt fit. */
function kindOfFitting(receipt: unknown): string {
  const { leaf = "", record = "" } = findReceipt(receipt) ?? {};
  const parsed = readExactRecord(Buffer.from(record, "base64"));
  expect(problemsOf("receipt", findReceipt(receipt))).toEqual([]);
  expect(problemsOf("leaf", readExactLeaf(Buffer.from(leaf, "base64")))).toEqual([]);
  expect(problemsOf("record", parsed)).toEqual([]);
  return parsed?.kind ?? "none";
}

/** Names of the caller's attributes in the record behind an answer. */
function attributesIn(answer: unknown): readonly string[] {
  const record = readExactRecord(Buffer.from(findReceipt(answer)?.record ?? "", "base64"));
  return Object.keys((record?.outcome.caller_attributes ?? {}) as object);
}

const declaration = `
caller_attributes:
  client: { type: text, claim: client_id, required: true }
  lifetime: { type: whole_number, claim: exp }
`;
// With what is recorded only where it is declared.
const policies = folderForFile("ledger-schema");
await cp(join(import.meta.dirname, "../../policies"), policies, { recursive: true });
await appendFile(join(policies, "manifest.yaml"), declaration);
const gateway = await gatewayForFile({ env: { SVC_POLICY_DIR: policies } });

const about = { workload: { application: "a" }, resource: { kind: "k" } };
const minimal: Readonly<Record<string, object>> = {
  "protection-plan": { ...about, operation: "rewrap" },
  "policy-resolve": { ...about, operation: "access" },
  "key-access-plan": { ...about, operation: "unwrap" },
  "artifact-register": {
    ...about,
    operation: "protect",
    artifact_profile: "tdf",
    artifact_digest: `sha256:${"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}`,
    artifact_object_b64: "YWJj",
    decision_id: "019a0000-0000-7000-8000-000000000000",
  },
  evidence: { ...about, event_type: "deny", occurred_at: "2026-01-02T00:00:00Z" },
};

test("a gateway's receipts match the schema, full and brief, with all options and with none", async () => {
  const token = await gateway.token();
  const kinds = new Set<string>();
  let decisionId: string | undefined;
  for (const route of Object.keys(minimal)) {
    const full = sampleCalls(decisionId).find((call) => call.route.endsWith(route))?.body;
    for (const body of [full, minimal[route]]) {
      const answer = await rest(`${gateway.url}/v1/sdk/${route}`, { token, body });
      expect([answer.status, route]).toEqual([200, route]);
      decisionId ??= answer.body.decision?.decision_id;
      kinds.add(kindOfFitting(answer.body));
      if (answer.body.decision !== undefined) expect(attributesIn(answer.body)).toEqual(["client", "lifetime"]);
    }
    const brief = await rest(`${gateway.url}/v1/sdk/${route}`, {
      token,
      body: full,
      headers: { "x-svc-receipt": "brief" },
    });
    expect(problemsOf("receipt", findReceipt(brief.body))).toEqual([]);
  }
  expect([...kinds]).toEqual(["decision", "registration", "evidence"]);
});

test("receipts of whole calls match the schema", () => {
  const held = vectors.ranges.filter((vector) => !("refused" in vector));
  for (const { answer } of held) {
    expect(problemsOf("rangeReceipt", answer.receipt)).toEqual([]);
    for (const { leaf } of answer.items) if (leaf !== undefined) expect(problemsOf("rangeLeaf", leaf)).toEqual([]);
  }
  const { receipt, items } = held[0]?.answer ?? { items: [] };
  expect(problemsOf("rangeReceipt", { ...receipt, nodes: ["AAAA"] })).not.toEqual([]);
  expect(problemsOf("rangeLeaf", { ...items[0]?.leaf, record: "" })).not.toEqual([]);
});

/** A log with what an operator does to it: 0 genesis, 1 and 2 records, 3 an erasure, 4 a rotation, 5 an adoption, 6 and 7 releases of holds, 8 a time that was accepted. */
function operatedLog({ rotates = true } = {}): MemoryLog {
  const log = memoryLog();
  const { tenantId, ...tree } = log.head();
  log.append({ ...decision(true), request: { ...decision(true).request, ...described() } });
  const gone = log.append({
    ...evidence("access", {}),
    request: { ...evidence("access", {}).request, ...described() },
  });
  log.erase(gone);
  if (rotates) log.rotate();
  const statement = { reason: "the anchor's disk is gone", operator: "olga" };
  const random = seededRandom("adoption");
  const machine = { clock: log.clock, random };
  log.appendRecords([adoptionRecord({ tenantId, ...tree, ...statement, ...machine })]);
  for (const recordId of [undefined, gone])
    log.appendRecords([
      holdReleaseRecord({ tenantId, recordId, reason: "case 12", placedAtMs: 0 }, { ...statement, ...machine }),
    ]);
  log.appendRecords([clockAcceptanceRecord({ ...log.head(), lastRecordedAtMs: 0 }, { ...statement, ...machine })]);
  return log;
}

function described() {
  return { workload: { application: "a" }, labels: [], attributes: {} };
}

test("records of operator commands match the schema", () => {
  const log = operatedLog();
  const kinds = [0, 1, 3, 4, 5, 6, 7, 8].map((leaf) => kindOfFitting(log.receipt(leaf)));
  expect(kinds).toEqual([
    "genesis",
    "decision",
    "erasure",
    "key_rotation",
    "anchor_adoption",
    "hold_release",
    "hold_release",
    "clock_acceptance",
  ]);
});

test("lines of packs match the schema, as does every accepted pack", async () => {
  // A rotation that is shown would ask for the new key too.
  const log = operatedLog({ rotates: false });
  for (let count = 0; count < 9; count++) log.append(decision(count % 2 === 0));
  const { below: next } = randomOf(7, 0);
  const types = new Set<string>();
  for (const selection of [
    { to: moment(99) },
    { from: moment(2), to: moment(4) },
    { field: "principal", value: "principal-1" },
    { field: "principal", value: "principal-1", from: moment(2), to: moment(4) },
  ] as const) {
    const lines = linesIn(await log.pack(selection));
    for (const { type } of lines) types.add(type);
    for (let count = 0; count < 200; count++) {
      const changed = count === 0 ? lines : changedLines(lines, next);
      const isAccepted = await Promise.resolve()
        .then(() => verifyText(sealLines(changed), [log.verifier()]))
        .then(
          () => true,
          () => false,
        );
      expect(isAccepted || count > 0).toBe(true);
      if (!isAccepted) continue;
      for (const line of changed) expect(problemsOf("packLine", line), JSON.stringify(line)).toEqual([]);
    }
  }
  expect([...types].sort()).toEqual(["end", "entry", "header", "policy"]);
});

test.each([
  ["packLine", { type: "end", entries: 1, sha256: `sha256:${"0".repeat(64)}` }],
  ["packLine", { type: "entry", leaf_index: 1, leaf: "{}", gap: [] }],
  ["packLine", { type: "entry", leaf_index: 1, leaf: "{}", erased: false }],
  ["packLine", { type: "entry", leaf_index: 1, leaf: "{}", record: "{}" }],
  ["packLine", { type: "policy", revision: "x", content: null }],
  ["selection", { cid: "x", label: "y" }],
  ["selection", { decision_id: "x", from: moment(0) }],
  ["selection", {}],
  ["leaf", { v: 2 }],
  ["receipt", { record_id: "x" }],
])("%s: %j does not match", (name, value) => {
  expect(problemsOf(name, value)).not.toEqual([]);
});
