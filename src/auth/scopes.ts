import type { Caller } from "../base/caller.ts";
import { insufficientScope } from "./challenge.ts";

/**
 * Refuses a caller that lacks one of the scopes. Scopes are compared byte for byte; none implies another.
 * @throws ServiceError `missing_scope`, which names the required and the missing ones
 */
export function requireScopes(caller: Caller, required: readonly string[]): void {
  const missing = required.filter((scope) => !caller.scopes.includes(scope));
  if (missing.length > 0) throw insufficientScope(required, missing);
}
