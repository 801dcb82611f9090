/**
 * The manifest of a TDF (OpenTDF 4.3): keys, policy, and hashes of the payload's segments. The assertion that names our
 * decision includes a digest of everything else in the manifest, and is authenticated under the payload key.
 */
import { createHash, createHmac } from "node:crypto";
import { EnforcementError } from "./errors.ts";
import {
  areTexts,
  type Binding,
  canonical,
  decodeBase64,
  hasMembers,
  isBinding,
  isReference,
  malformed,
  parseJson,
} from "./header.ts";
import type { TdfKey, WrappedShare } from "./tdf-keys.ts";

export type SegmentHash = "GMAC" | "HS256";
/** Options of protection with profile `tdf`. */
export interface TdfOptions {
  /**
   * References of the keys: the payload key is split into as many shares as there are lists, and all are needed. Any key
   * of a list gives its share. Default: one share, of the key that `keyReference` names.
   */
  readonly keys?: readonly (readonly string[])[];
  /** Default `HS256`, by which the manifest determines the payload. `GMAC` is faster. */
  readonly segmentHash?: SegmentHash;
}

/** Bytes that encryption adds to a segment: nonce and tag. */
export const segmentOverhead = 28;
/** The largest segment that is read, which bounds memory. */
const maxSegmentBytes = 16_777_216 + segmentOverhead;
const tagSize = 16;
const schemaVersion = "4.3.0";
const assertionId = "svc-platform-decision";
const statementSchema = "urn:svc-platform:tdf-decision:v1";

export interface KeyAccess extends WrappedShare {
  readonly type: string;
  readonly url: string;
  readonly protocol: "kas";
  readonly kid?: string;
  /** Shares with the same name are alternatives; all names are needed. */
  readonly sid?: string;
  readonly policyBinding: { readonly alg: string; readonly hash: string };
}

export interface Segment {
  /** Base64. */
  readonly hash: string;
  readonly segmentSize?: number;
  readonly encryptedSegmentSize?: number;
}

interface Encryption {
  readonly type: "split";
  readonly keyAccess: readonly KeyAccess[];
  readonly method: { readonly algorithm: "AES-256-GCM"; readonly isStreamable: true; readonly iv: "" };
  readonly integrityInformation: {
    readonly rootSignature: { readonly alg: "HS256"; readonly sig: string };
    readonly segmentHashAlg: SegmentHash;
    readonly segmentSizeDefault: number;
    readonly encryptedSegmentSizeDefault: number;
    readonly segments: readonly Segment[];
  };
  /** Base64. */
  readonly policy: string;
}

interface Assertion {
  readonly id: string;
  readonly statement: { readonly schema?: string; readonly value: string };
  readonly binding?: { readonly method: string; readonly signature: string };
}

export interface Manifest {
  readonly schemaVersion: string;
  readonly payload: object;
  readonly encryptionInformation: Encryption;
  readonly assertions?: readonly Assertion[];
}

/** The keys of the manifest in the same order, and the key-access decisions that allowed them. */
export type NamedKeys = readonly { readonly decision_id: string; readonly reference: string }[];

/** What the assertion states. */
export interface Statement {
  readonly binding: Binding;
  readonly keys: NamedKeys;
}

/** Hash of an encrypted segment. GMAC is the tag at its end. */
export function segmentHash(alg: SegmentHash, encrypted: Uint8Array, payloadKey: Uint8Array): Buffer {
  return alg === "GMAC" ? Buffer.from(encrypted.subarray(-tagSize)) : hmac(payloadKey, encrypted);
}

function hmac(key: Uint8Array, bytes: Uint8Array): Buffer {
  return createHmac("sha256", key).update(bytes).digest();
}

/** Policy of an artifact: its uuid is the decision; base64. */
export function policyOf({ decision_id, labels }: Binding, namespace: string, planned: readonly string[]): string {
  const fqn = (name: string, value: string) => `https://${namespace}/attr/${name}/value/${value}`;
  const attributes = [fqn("decision", decision_id), ...labels.map((label) => fqn("label", label))];
  const dataAttributes = [...new Set([...attributes, ...planned])].map((attribute) => ({ attribute }));
  return canonical({ body: { dataAttributes, dissem: [] }, uuid: decision_id }).toString("base64");
}

/** Throws `invalid` if a namespace or label is not the name of an attribute: names are compared in lower case. */
export function requireAttributes(labels: readonly string[], namespace: string | undefined): string {
  if (namespace === undefined || !/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(namespace))
    throw new EnforcementError("invalid", "profile tdf needs a namespace of attributes, such as example.com");
  const odd = labels.find((label) => !/^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/.test(label));
  if (odd !== undefined) throw new EnforcementError("invalid", `label ${JSON.stringify(odd)} is no attribute value`);
  return namespace;
}

/** The key access object of a share, bound to the policy. */
export async function keyAccessOf(key: TdfKey, share: Uint8Array, sid: string, policy: string): Promise<KeyAccess> {
  const { type, url, kid } = key;
  const policyBinding = { alg: "HS256", hash: bindingOf(share, policy) };
  return { ...(await key.wrapShare(share)), type, url, kid, protocol: "kas", sid, policyBinding };
}

function bindingOf(share: Uint8Array, policy: string): string {
  return Buffer.from(hmac(share, Buffer.from(policy)).toString("hex")).toString("base64");
}

/** Throws `not_authentic` unless the share is the one that this policy was bound to. */
export function requirePolicy(share: Uint8Array, { policyBinding }: KeyAccess, policy: string): void {
  const raw = hmac(share, Buffer.from(policy)).toString("base64");
  if (policyBinding.alg !== "HS256" || ![bindingOf(share, policy), raw].includes(policyBinding.hash))
    throw new EnforcementError("not_authentic", "the policy is not the one that the file was made with");
}

/** Bytes of a manifest of ours: canonical JSON. */
export function encodeManifest(
  encryption: Encryption,
  mimeType: string,
  statement: Statement,
  key: Uint8Array,
): Buffer {
  const payload = { isEncrypted: true, mimeType, protocol: "zip", type: "reference", url: "0.payload" };
  const manifest = { encryptionInformation: encryption, payload, schemaVersion };
  return canonical(asserted(manifest, statement, (signed) => macOf(key, signed)));
}

function macOf(key: Uint8Array, signed: string): string {
  return hmac(key, Buffer.from(signed)).toString("base64url");
}

function asserted(
  manifest: Omit<Manifest, "assertions">,
  { binding, keys }: Statement,
  sign: (signed: string) => string,
): Manifest {
  const digest = createHash("sha256").update(canonical(manifest)).digest("hex");
  const value = canonical({ binding, keys, manifest: `sha256:${digest}` }).toString();
  const assertion = {
    appliesToState: "unencrypted",
    id: assertionId,
    scope: "tdo",
    statement: { format: "json", schema: statementSchema, value },
    type: "other",
  };
  const assertionHash = createHash("sha256").update(canonical(assertion)).digest();
  const hashes = manifest.encryptionInformation.integrityInformation.segments.map(({ hash }) => decode(hash));
  const claims = {
    assertionHash: assertionHash.toString("hex"),
    assertionSig: Buffer.concat([...hashes, assertionHash]).toString("base64"),
  };
  const signed = [{ alg: "HS256" }, claims].map((part) => canonical(part).toString("base64url")).join(".");
  const signature = `${signed}.${sign(signed)}`;
  return { ...manifest, assertions: [{ ...assertion, binding: { method: "jws", signature } }] } as Manifest;
}

/** Parses a manifest of any OpenTDF writer. Throws `not_authentic`. Authenticates nothing yet. */
export function parseManifest(bytes: Uint8Array): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw malformed("its manifest is no JSON", cause);
  }
  if (!isManifest(value)) throw malformed("its manifest is none of OpenTDF 4.3");
  return value;
}

/** The statement of our assertion. Undefined if the file is of another writer. Throws `not_authentic`. */
export function statementOf({ assertions = [] }: Manifest): Statement | undefined {
  const own = assertions.filter(({ id }) => id === assertionId);
  if (own.length === 0) return undefined;
  if (own.length > 1 || assertions.length > 1) throw malformed("it has more than one assertion");
  let value: unknown;
  try {
    value = JSON.parse(own[0]?.statement.value ?? "");
  } catch (cause) {
    throw malformed("its assertion is no JSON", cause);
  }
  if (!isStatement(value)) throw malformed("its assertion is another one");
  return value;
}

/** Rejects with `not_authentic` unless the key is the payload's, and signs the segments as they are listed. */
export function requireSegments({ encryptionInformation }: Manifest, payloadKey: Uint8Array): void {
  const { rootSignature, segments } = encryptionInformation.integrityInformation;
  const hashes = segments.map(({ hash }) => decode(hash));
  if (hmac(payloadKey, Buffer.concat(hashes)).toString("base64") !== rootSignature.sig)
    throw new EnforcementError("not_authentic", "the list of segments is not of this payload key");
}

/**
 * Throws `not_authentic` unless every byte of the manifest is as `encodeManifest` writes it. Without the payload key
 * the assertion's signature is not checked.
 */
export function requireManifest(
  bytes: Buffer,
  manifest: Manifest,
  statement: Statement,
  payloadKey: Uint8Array | undefined,
): void {
  const { assertions, ...others } = manifest;
  const itsOwn = String(assertions?.[0]?.binding?.signature).split(".").at(-1) ?? "";
  const sign = (signed: string) => (payloadKey === undefined ? itsOwn : macOf(payloadKey, signed));
  const { policy, keyAccess } = others.encryptionInformation;
  const { uuid, attributes } = readPolicy(policy);
  const [, namespace = ""] = /^https:\/\/([^/]+)\/attr\/decision\//.exec(attributes[0] ?? "") ?? [];
  const { binding, keys } = statement;
  // Others may follow, which a plan named.
  const planned = attributes.slice(1 + binding.labels.length);
  const isNamed = uuid === binding.decision_id && keyAccess.length === keys.length;
  try {
    const isWhole = canonical(asserted(others, statement, sign)).equals(bytes);
    if (isNamed && isWhole && policyOf(binding, namespace, planned) === policy) return;
  } catch {
    // A member has no canonical form.
  }
  throw new EnforcementError("not_authentic", "the manifest is not the one that its assertion was made for");
}

/** The policy's members that matter here. Throws `not_authentic`. */
export function readPolicy(policy: string) {
  const value = parseJson(decodeBase64(policy), "its policy");
  const { uuid, body } = isObject(value) ? value : {};
  const { dataAttributes, dissem } = isObject(body) ? body : {};
  const [attributes, recipients] = [dataAttributes ?? [], dissem ?? []];
  const isNamed = ({ attribute }: Json) => typeof attribute === "string" && attribute.isWellFormed();
  if (typeof uuid !== "string" || !isObject(body) || !isListOf(attributes, isNamed) || !Array.isArray(recipients))
    throw malformed("its policy is none of OpenTDF");
  const names = (attributes as readonly { readonly attribute: string }[]).map(({ attribute }) => attribute);
  return { uuid, attributes: names, recipients: recipients as readonly unknown[] };
}

/** Size of an encrypted segment in bytes. Throws `not_authentic` if it cannot be. */
export function encryptedSize(segment: Segment, { encryptionInformation }: Manifest): number {
  const { encryptedSegmentSizeDefault } = encryptionInformation.integrityInformation;
  const sizeBytes = segment.encryptedSegmentSize ?? encryptedSegmentSizeDefault;
  const isPossible = Number.isSafeInteger(sizeBytes) && sizeBytes >= segmentOverhead && sizeBytes <= maxSegmentBytes;
  if (!isPossible || (segment.segmentSize ?? sizeBytes - segmentOverhead) !== sizeBytes - segmentOverhead)
    throw malformed("a segment has no size that can be");
  return sizeBytes;
}

function decode(text: string): Buffer {
  return Buffer.from(text, "base64");
}

type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isListOf = (value: unknown, isItem: (item: Json) => boolean): boolean =>
  Array.isArray(value) && value.every((item) => isObject(item) && isItem(item));
const areOptionalTexts = (value: Json, members: readonly string[]) =>
  members.every((member) => ["string", "undefined"].includes(typeof value[member]));

function isManifest(value: unknown): value is Manifest {
  if (!isObject(value) || !isObject(value.payload) || !isObject(value.encryptionInformation)) return false;
  const { method, integrityInformation: integrity, keyAccess, policy, type } = value.encryptionInformation;
  if (!isObject(method) || !isObject(integrity) || !isObject(integrity.rootSignature)) return false;
  const { rootSignature, segmentHashAlg, segments } = integrity;
  return (
    typeof value.schemaVersion === "string" &&
    /^4\.([3-9]|\d\d+)\.\d+$/.test(value.schemaVersion) &&
    value.payload.isEncrypted === true &&
    value.payload.url === "0.payload" &&
    type === "split" &&
    method.algorithm === "AES-256-GCM" &&
    typeof policy === "string" &&
    isListOf(keyAccess, isKeyAccess) &&
    rootSignature.alg === "HS256" &&
    typeof rootSignature.sig === "string" &&
    (segmentHashAlg === "GMAC" || segmentHashAlg === "HS256") &&
    isListOf(segments, ({ hash }) => typeof hash === "string") &&
    (value.assertions === undefined || isListOf(value.assertions, isAssertion))
  );
}

function isKeyAccess(value: Json): boolean {
  const { policyBinding } = value;
  return (
    areTexts(value, ["type", "url", "wrappedKey"]) &&
    areOptionalTexts(value, ["kid", "sid", "ephemeralPublicKey"]) &&
    isObject(policyBinding) &&
    areTexts(policyBinding, ["alg", "hash"])
  );
}

function isAssertion({ id, statement }: Json): boolean {
  return typeof id === "string" && isObject(statement) && (id !== assertionId || areTexts(statement, ["value"]));
}

function isStatement(value: unknown): value is Statement {
  return (
    hasMembers(value, ["binding", "keys", "manifest"]) &&
    isBinding(value.binding, []) &&
    isListOf(value.keys, (key) => hasMembers(key, ["decision_id", "reference"]) && areTexts(key, Object.keys(key))) &&
    (value.keys as NamedKeys).length > 0 &&
    (value.keys as NamedKeys).every(({ reference }) => isReference(reference))
  );
}
