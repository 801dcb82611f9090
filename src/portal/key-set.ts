import type { Page } from "../transport/http/page.ts";

/** Path of the public keys of session tokens, for whoever verifies them elsewhere. */
export const keySetPath = "/.well-known/jwks.json";

/** The public keys of now, as a JWK set (RFC 7517 §5, §8.5). */
export function keySetPage(published: () => { readonly keys: readonly object[] }): Page {
  return {
    path: keySetPath,
    content: () => ({ type: "application/jwk-set+json", body: JSON.stringify(published()) }),
  };
}
