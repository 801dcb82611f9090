/** Whose access tokens are taken: each source verifies its own, with its own keys. */
import { decodeJwt } from "jose";
import type { Verify } from "./token-cache.ts";

export interface TokenSource {
  /** `iss` of its tokens. */
  readonly issuer: string;
  /** Verifies all that a token of this source must say, `iss` among it. */
  readonly verify: Verify;
  /** Another value whenever its keys change; undefined while it has none. */
  readonly revision: () => number | undefined;
}

/**
 * Gives a token to the source that it names; one that names none of them to the first, which refuses it. What the
 * token says of itself only chooses who verifies it: no source takes a token that was signed for another.
 */
export function verifyBySource(sources: readonly [TokenSource, ...TokenSource[]]): Verify {
  const [first, ...others] = sources;
  if (others.length === 0) return first.verify;
  return (token, context) => {
    const issuer = claimedIssuer(token);
    return (others.find((source) => source.issuer === issuer) ?? first).verify(token, context);
  };
}

/** Another value whenever the keys of any source change; undefined while none has any. */
export function revisionOf(sources: readonly [TokenSource, ...TokenSource[]]): number | string | undefined {
  // Asked for on every call: most deployments have one source.
  if (sources.length === 1) return sources[0].revision();
  const revisions = sources.map(({ revision }) => revision());
  return revisions.every((revision) => revision === undefined) ? undefined : revisions.join();
}

function claimedIssuer(token: string): unknown {
  try {
    return decodeJwt(token).iss;
  } catch {
    // No JWT: its refusal is the verifier's.
    return undefined;
  }
}
