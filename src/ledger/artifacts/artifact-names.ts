/** Canonical names of artifacts, for any spelling by the caller. */
import type { JsonObject, JsonValue } from "../../base/json.ts";
import { canonicalCid, parseCid } from "./cid.ts";
import { canonicalDigest } from "./digest.ts";

/** Returns the name that all spellings of a digest share; the text itself if the hash is unknown. */
export function nameOfDigest(digest: string): string {
  return canonicalDigest(digest);
}

/**
 * Returns the name that a CID has in any base. A CIDv1 of codec raw identifies the bytes, so its name is that of their
 * digest. Any other CID identifies a structure and has a separate name, as has text that is not a CID.
 */
export function nameOfCid(cid: string): string {
  const parsed = parseCid(cid);
  if (parsed?.isRaw && parsed.algorithm !== undefined) return canonicalDigest(`${parsed.algorithm}:${parsed.hex}`);
  return `cid:${canonicalCid(cid) ?? cid}`;
}

/** Returns the names of a question's artifact: none, or each different one that its members give. */
export function artifactNames({ artifact_digest, artifact_cid }: JsonObject): readonly string[] {
  return distinct([artifact_digest, nameOfDigest], [artifact_cid, nameOfCid]);
}

/** Returns the names of the artifact that a record registers, with the CID that was derived from the object. */
export function registeredNames(request: JsonObject, outcome: JsonObject): readonly string[] {
  const { artifact_digest, artifact_cid } = request;
  return distinct([artifact_digest, nameOfDigest], [artifact_cid, nameOfCid], [outcome.artifact_cid, nameOfCid]);
}

function distinct(...members: readonly (readonly [JsonValue | undefined, (text: string) => string])[]) {
  return [...new Set(members.flatMap(([text, nameOf]) => (typeof text === "string" ? [nameOf(text)] : [])))];
}
