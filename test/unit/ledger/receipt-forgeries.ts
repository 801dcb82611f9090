/** What the log's own key vouches for, and what is not of the format all the same. */
import { canonicalText } from "../../../src/ledger/record/canonical.ts";
import { memoryLog } from "./pack/memory-log.ts";
import type { ReceiptVector } from "./receipt-vectors.ts";

type Members = Record<string, unknown>;

interface Forgery {
  readonly name: string;
  readonly refused: string;
  /** Members instead of the honest ones; undefined for none. */
  readonly leaf?: Members;
  readonly record?: Members;
  /** How the record is spelled, instead of canonically. */
  readonly spell?: (canonical: string) => string;
}

const caller = { auth_source: "bearer_token", principal_id: "payroll", subject: "client-1" };
const forgeries: readonly Forgery[] = [
  { name: "a leaf with a member more", refused: "a leaf has no other members", leaf: { note: "x" } },
  { name: "a leaf of another version", refused: "its version is unknown", leaf: { v: 2 } },
  { name: "a leaf without a time", refused: "a member is absent", leaf: { recorded_at: undefined } },
  {
    name: "a leaf with a time of another form",
    refused: "its time is none",
    leaf: { recorded_at: "2026-01-02T00:00:00Z" },
  },
  { name: "a leaf of another kind", refused: "record and leaf differ", leaf: { kind: "evidence" } },
  {
    name: "a leaf of another record",
    refused: "record and leaf differ",
    leaf: { record_id: "01890a5d-ac96-774b-bcce-b302099a8057" },
  },
  {
    name: "a leaf of another policy revision",
    refused: "record and leaf differ",
    leaf: { policy_revision: "sha256:4567" },
    record: { outcome: { allow: true, policy_revision: "sha256:0123" } },
  },
  { name: "a record with a member more", refused: "a record has no other members", record: { note: "x" } },
  { name: "a record with a member less", refused: "a member is absent", record: { tenant_id: undefined } },
  { name: "a record with a number for a text", refused: "a member is of another type", record: { tenant_id: 7 } },
  { name: "a record with null for a text", refused: "a member is of another type", record: { tenant_id: null } },
  { name: "a record with a list for an object", refused: "a member is of another type", record: { outcome: [] } },
  { name: "a record with a text for a caller", refused: "a member is of another type", record: { caller: "payroll" } },
  {
    name: "a record whose caller has a member more",
    refused: "a caller has no other members",
    record: { caller: { ...caller, note: "x" } },
  },
  { name: "a record of another log", refused: "record and receipt differ", record: { log: "ledger.example/other" } },
  {
    name: "a record of another request",
    refused: "its digest is another's",
    record: { request: { operation: "access" } },
  },
  { name: "a record with a space", refused: "it is not canonical", spell: (text) => text.replace(":", ": ") },
  {
    name: "a record in another order",
    refused: "it is not canonical",
    spell: (text) => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text) as Members).reverse())),
  },
  {
    name: "a record with a needless escape",
    refused: "it is not canonical",
    spell: (text) => text.replace('"kind"', '"\\u006bind"'),
  },
  {
    name: "a record with a member twice",
    refused: "it is not canonical",
    spell: (text) => text.replace('"kind"', '"kind":"decision","kind"'),
  },
  { name: "a record with a byte-order mark", refused: "it is not canonical", spell: (text) => `\ufeff${text}` },
  { name: "a record with something behind it", refused: "it is not canonical", spell: (text) => `${text}\n` },
];

/** Leaves and records that the log's own key vouches for, and that are not what the format says. */
export function forgedReceipts(): ReceiptVector[] {
  return forgeries.map(({ name, refused, leaf: forgedLeaf, record: forgedRecord, spell }, position) => {
    const log = memoryLog({ name: `forger-${position}` });
    log.forge((leaf, record) => {
      Object.assign(leaf, forgedLeaf);
      Object.assign(record, forgedRecord);
      if (spell !== undefined) Object.assign(record, { text: spell(canonicalText(record as never)) });
    });
    return { name, refused, log_key: log.vkey(), receipt: { ...log.receipt(log.head().size - 1) } };
  });
}
