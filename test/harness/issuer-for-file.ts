/** The bare issuer of a file of tests, with tokens that it signed. */
import { startStaticIssuer } from "./issuer.ts";
import { forFile } from "./lifetimes.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "./tokens.ts";

/** Starts it for all tests of a file, and stops it after the last one. To be called while the file loads. */
export async function issuerForFile() {
  const key = newTestKey("ES256", "key-1");
  const issuer = await forFile(startStaticIssuer([key.publicJwk]));
  return Object.assign(issuer, {
    /** A token of now, good but for the claims that are given. */
    token: (claims?: Members) => mintToken(key, claimsOf(issuer.url, Date.now(), claims)),
  });
}
