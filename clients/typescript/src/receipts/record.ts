/** Leaves and records: canonical JSON (RFC 8785) of exactly the members that docs/reference/ledger-formats.md names. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { parseJson } from "../json.ts";
import { ReceiptError } from "./note.ts";
import { formatHex, nodeCrypto, sameBytes, sha256 } from "./text-forms.ts";
import { hashLeaf } from "./tree.ts";

interface Material {
  readonly leaf: Uint8Array<ArrayBuffer>;
  readonly opening: Uint8Array<ArrayBuffer>;
  readonly record: Uint8Array<ArrayBuffer>;
}

const openingBytes = 32;
const maxLeafBytes = 65_535;
const maxDepth = 32;

/**
 * The leaf of a record, from the record's members and the commitment to it. Throws a ReceiptError if it is not a
 * record.
 */
export async function leafOf({ opening, record }: Omit<Material, "leaf">): Promise<Uint8Array<ArrayBuffer>> {
  const { kind, record_id, recorded_at, outcome } = readRecord(record) ?? fail("record cannot be read");
  if (opening.length !== openingBytes) fail("opening is none");
  const { policy_revision } = outcome as JsonObject;
  const leaf = {
    v: 1,
    kind: kind as string,
    record_id: record_id as string,
    recorded_at: recorded_at as string,
    ...(kind === "decision" && policy_revision !== undefined && { policy_revision }),
    commitment: await commitment(record, opening),
  };
  return new TextEncoder().encode(canonicalText(leaf));
}

/** Returns the record, proven to be the one that the leaf with this hash commits to. Throws a ReceiptError. */
export async function verifyMaterial({ leaf, opening, record }: Material, leafHash: Uint8Array): Promise<JsonObject> {
  if (!sameBytes(await hashLeaf(leaf), leafHash)) fail("leaf_hash is not its leaf's");
  const said = readLeaf(leaf) ?? fail("leaf cannot be read");
  if (opening.length !== openingBytes || (await commitment(record, opening)) !== said.commitment)
    fail("record is not the one that its leaf commits to");
  const shown = readRecord(record) ?? fail("record cannot be read");
  for (const member of ["record_id", "kind", "recorded_at"])
    if (shown[member] !== said[member]) fail(`record has another ${member} than its leaf`);
  const { policy_revision: revision } = shown.outcome as JsonObject;
  if (shown.kind === "decision" && revision !== undefined && revision !== said.policy_revision)
    fail("record has another policy_revision than its leaf");
  const digest = formatHex(await sha256(new TextEncoder().encode(canonicalText(shown.request as JsonObject))));
  if (shown.request_digest !== `sha256:${digest}`) fail("record has another request than its digest");
  return shown;
}

/** HMAC-SHA-256 of the record, with a key from its opening (docs/reference/ledger-formats.md). */
async function commitment(record: Uint8Array<ArrayBuffer>, opening: Uint8Array<ArrayBuffer>): Promise<string> {
  const info = new TextEncoder().encode("platform-ledger/v1/commitment");
  if (nodeCrypto !== undefined) {
    const key = new Uint8Array(nodeCrypto.hkdfSync("sha256", opening, new Uint8Array(0), info, 32));
    return `hmac-sha256:${nodeCrypto.createHmac("sha256", key).update(record).digest("hex")}`;
  }
  const secret = await crypto.subtle.importKey("raw", opening, "HKDF", false, ["deriveKey"]);
  const hkdf = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info };
  const hmac = { name: "HMAC", hash: "SHA-256", length: 256 };
  const key = await crypto.subtle.deriveKey(hkdf, secret, hmac, false, ["sign"]);
  return `hmac-sha256:${formatHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, record)))}`;
}

function readLeaf(bytes: Uint8Array): JsonObject | undefined {
  const leaf = bytes.length > maxLeafBytes ? undefined : readCanonical(bytes);
  const { policy_revision: revision = "", ...others } = leaf ?? {};
  const names = ["commitment", "kind", "record_id", "recorded_at"];
  const isLeaf =
    hasExactly(others, [...names, "v"]) &&
    others.v === 1 &&
    [revision, ...names.map((name) => others[name])].every(isText) &&
    isMoment(others.recorded_at) &&
    /^hmac-sha256:[0-9a-f]{64}$/.test(others.commitment as string);
  return isLeaf ? leaf : undefined;
}

const textMembers = ["kind", "record_id", "log", "tenant_id", "recorded_at", "request_id", "route", "request_digest"];
const objectMembers = ["caller", "request", "outcome"];
const callerMembers = ["auth_source", "principal_id", "subject"];

function readRecord(bytes: Uint8Array): JsonObject | undefined {
  const record = readCanonical(bytes);
  if (record === undefined) return undefined;
  const { caller } = record;
  const isRecord =
    hasExactly(record, [...textMembers, ...objectMembers]) &&
    textMembers.every((name) => isText(record[name])) &&
    objectMembers.every((name) => isObject(record[name])) &&
    isObject(caller) &&
    hasExactly(caller, callerMembers) &&
    callerMembers.every((name) => isText(caller[name]));
  return isRecord ? record : undefined;
}

/** The object with this canonical text; undefined for other bytes. */
function readCanonical(bytes: Uint8Array): JsonObject | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value = parseJson(text) as JsonValue;
    return isObject(value) && canonicalText(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * RFC 8785: members in the order of their UTF-16 units, everything else as ECMAScript writes it.
 *
 * @throws ReceiptError for values that no record has: U+0000, a lone surrogate, deeper nesting
 */
export function canonicalText(value: JsonValue, depth = 0): string {
  if (typeof value === "string" && (value.includes("\0") || !value.isWellFormed()))
    throw new ReceiptError("a text is none that a record holds");
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (depth === maxDepth) throw new ReceiptError("a value is nested deeper than in any record");
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, depth + 1)).join(",")}]`;
  const names = Object.keys(value).sort();
  const members = names.map((name) => `${canonicalText(name)}:${canonicalText(value[name] as JsonValue, depth + 1)}`);
  return `{${members.join(",")}}`;
}

function isMoment(text: unknown): boolean {
  if (!isText(text) || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(text)) return false;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text;
}

function hasExactly(value: JsonObject, names: readonly string[]): boolean {
  return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fail(problem: string): never {
  throw new ReceiptError(`the receipt's ${problem}`);
}
