/** Compares the bytes of an artifact with what the caller states about them. */
import { invalidRequest } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { parseCid, rawCid } from "../ledger/artifacts/cid.ts";
import { type HashName, hashOfDigest, isDigestOf } from "../ledger/artifacts/digest.ts";
import type { ArtifactHasher } from "./ports.ts";
import type { RegistrationRequest } from "./requests.ts";
import { warnings } from "./warnings.ts";

export interface DerivedArtifact {
  /** CIDv1, raw, sha2-256, base32. */
  readonly cid: string;
  readonly sizeBytes: number;
  readonly warnings: readonly string[];
}

/**
 * Hashes the object and compares. A CID in any base is compared with the CIDv1 (codec raw) of the bytes; one of another
 * version or codec identifies a structure over them, and is a mismatch. A value with an unsupported hash function is
 * kept with a warning.
 *
 * @throws ServiceError `invalid_request` naming `artifact_digest` or `artifact_cid` if it is not the object's, and
 *   whatever the hasher throws
 */
export async function deriveArtifact(
  hasher: ArtifactHasher,
  tenantId: TenantId,
  request: RegistrationRequest,
  objectBase64: string,
  signal: AbortSignal,
): Promise<DerivedArtifact> {
  const { artifact_digest, artifact_cid } = request;
  const digestHash = hashOfDigest(artifact_digest);
  const given = artifact_cid === undefined ? undefined : parseCid(artifact_cid);
  if (artifact_cid !== undefined && given === undefined) throw mismatch("artifact_cid");
  const asked = new Set<HashName>(["sha256"]);
  if (digestHash !== undefined) asked.add(digestHash);
  if (given?.hash !== undefined) asked.add(given.hash);

  const { sizeBytes, digests } = await hasher.digest(tenantId, objectBase64, [...asked], signal);
  const hexOf = (hash: HashName): string => {
    const hex = digests.get(hash);
    if (hex === undefined) throw new Error(`hasher left ${hash} out`);
    return hex;
  };
  if (digestHash !== undefined && !isDigestOf(artifact_digest, hexOf(digestHash))) throw mismatch("artifact_digest");
  // A CID of another codec identifies a structure, which is other content even if the hash is the same.
  if (given !== undefined && !given.isRaw) throw mismatch("artifact_cid");
  if (given?.hash !== undefined && given.hex !== hexOf(given.hash)) throw mismatch("artifact_cid");
  return {
    cid: rawCid(hexOf("sha256")),
    sizeBytes,
    warnings: [
      ...(digestHash === undefined ? [warnings.notCompared("artifact_digest")] : []),
      ...(given !== undefined && given.hash === undefined ? [warnings.notCompared("artifact_cid")] : []),
    ],
  };
}

function mismatch(field: "artifact_digest" | "artifact_cid"): Error {
  return invalidRequest(field, "artifact.mismatch", `${field} is not that of artifact_object_b64`);
}
