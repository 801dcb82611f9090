/** What artifacts are called, whichever way a caller spells it. */
import type { JsonObject, JsonValue } from "../../base/json.ts";
import { canonicalCid, parseCid } from "./cid.ts";
import { canonicalDigest } from "./digest.ts";

/**
 * The one name that a digest has in all of its spellings (`canonicalDigest`). Of a value that is no known hash it is the
 * text itself.
 */
export function nameOfDigest(digest: string): string {
  return canonicalDigest(digest);
}

/**
 * The one name that a CID has in any base. A CIDv1 of codec raw names the bytes themselves: it has the name of their
 * digest. Every other names a structure, and has a name of its own; so does a text that is no CID.
 */
export function nameOfCid(cid: string): string {
  const parsed = parseCid(cid);
  if (parsed?.isRaw && parsed.algorithm !== undefined) return canonicalDigest(`${parsed.algorithm}:${parsed.hex}`);
  return `cid:${canonicalCid(cid) ?? cid}`;
}

/** Names of the artifact that a question is about: none, or one for each different one that its members give. */
export function artifactNames({ artifact_digest, artifact_cid }: JsonObject): readonly string[] {
  return distinct([artifact_digest, nameOfDigest], [artifact_cid, nameOfCid]);
}

/** Names of the artifact that a record registers: those of its request, and of the CID that was derived from the object. */
export function registeredNames(request: JsonObject, outcome: JsonObject): readonly string[] {
  const { artifact_digest, artifact_cid } = request;
  return distinct([artifact_digest, nameOfDigest], [artifact_cid, nameOfCid], [outcome.artifact_cid, nameOfCid]);
}

function distinct(...members: readonly (readonly [JsonValue | undefined, (text: string) => string])[]) {
  return [...new Set(members.flatMap(([text, nameOf]) => (typeof text === "string" ? [nameOf(text)] : [])))];
}
