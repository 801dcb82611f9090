/** Proofs of possession of a key (RFC 9449), by WebCrypto. */
import { generateKeyPair, generateProof, type KeyPair } from "dpop";

/** Proves for each request that its sender holds the key of its token. */
export interface DpopKey {
  /** A proof for one request; `accessToken` if the request has one. */
  proof(request: { readonly method: string; readonly url: string; readonly accessToken?: string }): Promise<string>;
  /** Stores the nonce in the headers of that server's answer (§8, §9). Returns whether there is one. */
  takeNonce(url: string, headers: Headers): boolean;
}

/**
 * Creates proofs with a key.
 *
 * @param keys default: a new P-256 key that cannot be exported
 */
export function createDpop(keys?: KeyPair): DpopKey {
  const pair = keys === undefined ? generateKeyPair("ES256") : Promise.resolve(keys);
  // Each proof awaits it.
  pair.catch(() => {});
  const nonces = new Map<string, string>();
  return {
    async proof({ method, url, accessToken }) {
      // §4.2: without query and fragment.
      const { origin, pathname } = new URL(url);
      return generateProof(await pair, `${origin}${pathname}`, method, nonces.get(origin), accessToken);
    },
    takeNonce(url, headers) {
      const nonce = headers.get("dpop-nonce");
      if (nonce !== null) nonces.set(new URL(url).origin, nonce);
      return nonce !== null;
    },
  };
}
