import type { Caller } from "../base/caller.ts";
import { insufficientScope, type TokenScheme, underDpop } from "./challenge.ts";

/**
 * Refuses a caller that lacks one of the scopes. Scopes are compared byte for byte; none implies another.
 * @param scheme under which the caller presented its token: the challenge is for the same
 * @throws ServiceError `missing_scope`, which names the required and the missing ones
 */
export function requireScopes(caller: Caller, required: readonly string[], scheme: TokenScheme = "Bearer"): void {
  const missing = required.filter((scope) => !caller.scopes.includes(scope));
  if (missing.length === 0) return;
  const refusal = insufficientScope(required, missing);
  throw scheme === "DPoP" ? underDpop(refusal) : refusal;
}
