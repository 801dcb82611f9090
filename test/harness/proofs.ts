/** DPoP proofs, right and wrong in every way, signed with keys that a test owns. */
import { hash } from "node:crypto";
import { calculateJwkThumbprint, type JWK } from "jose";
import type { ProofUse, ReplayStore } from "../../src/auth/replay-store.ts";
import { type Members, mintToken, type TestKey } from "./tokens.ts";

/** What a proof is made for. */
export interface ProofTarget {
  readonly method: string;
  readonly url: string;
  readonly accessToken: string;
  readonly nowMs: number;
}

/** Public members alone: what a proof carries as its `jwk`. */
export function publicJwkOf({ publicKey }: TestKey): JWK {
  return publicKey.export({ format: "jwk" }) as JWK;
}

/** The `cnf` claim of a token that is bound to the key. */
export async function boundTo(key: TestKey): Promise<Members> {
  return { jkt: await calculateJwkThumbprint(publicJwkOf(key)) };
}

let proofs = 0;

/** A good proof with these claims and header members put in, or, as undefined, left out. */
export function mintProof(key: TestKey, target: ProofTarget, claims: Members = {}, header: Members = {}): string {
  proofs += 1;
  return mintToken(
    key,
    {
      jti: `proof-${proofs}`,
      htm: target.method,
      htu: target.url,
      iat: Math.floor(target.nowMs / 1000),
      ath: hash("sha256", target.accessToken, "base64url"),
      ...claims,
    },
    { typ: "dpop+jwt", kid: undefined, jwk: publicJwkOf(key), ...header },
  );
}

/** A replay store in the memory of a test, which sees what was noted. */
export function memoryReplayStore(): ReplayStore & { readonly uses: (ProofUse & { readonly expiresAtMs: number })[] } {
  const uses: (ProofUse & { readonly expiresAtMs: number })[] = [];
  return {
    uses,
    async firstUse(use, expiresAtMs) {
      if (uses.some(({ tenantId, proof }) => tenantId === use.tenantId && proof === use.proof)) return false;
      uses.push({ ...use, expiresAtMs });
      return true;
    },
  };
}
