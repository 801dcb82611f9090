/**
 * The ordered list of what every call passes, on every protocol. The gate runs on the headers alone, before a byte of
 * the body is read. The checks run on the message, before the handler.
 */
import type { Call } from "../calls/call.ts";
import type { Checks } from "../calls/exchange.ts";
import { createGate, type Gate, type GateLink } from "../calls/gate.ts";
import { createChecks } from "./checks.ts";
import { authenticate, authenticateStill, type CredentialVerifier, matchTenant, requireScopes } from "./links.ts";

export interface ChainOptions {
  /** Lowercase prefix of our own headers, such as `x-svc-`. */
  readonly headerPrefix: string;
  readonly verifier: CredentialVerifier;
  /** Scopes of a method, default ones included. */
  readonly requiredScopes: (rpc: string) => readonly string[];
  /** Enforces quotas of tenants; absent if there are none. */
  readonly quotas?: GateLink | undefined;
  /** Enforces quotas for the items of bulk calls once they are counted; absent if there are none. */
  readonly itemQuotas?: ((rpc: string, call: Call, signal: AbortSignal) => Promise<void>) | undefined;
  /** Methods without credentials, by `Service/Method`, with the links that replace the gate's. Default: none. */
  readonly withoutCredentials?: ReadonlyMap<string, readonly GateLink[]>;
}

export interface Chain {
  readonly gate: Gate;
  /** Gate for a stream that is open: detects credentials that were revoked or count for less since it began. */
  readonly gateStill: Gate;
  readonly checks: Checks;
}

export function createChain(options: ChainOptions): Chain {
  const allowed = [matchTenant(`${options.headerPrefix}tenant-id`), requireScopes(options.requiredScopes)];
  const guarded = createGate([
    authenticate(options.verifier),
    ...allowed,
    ...(options.quotas === undefined ? [] : [options.quotas]),
  ]);
  const open = new Map([...(options.withoutCredentials ?? [])].map(([rpc, links]) => [rpc, createGate(links)]));
  return {
    gate: (context) => (open.get(context.rpc) ?? guarded)(context),
    gateStill: createGate([authenticateStill(options.verifier), ...allowed]),
    checks: createChecks(options),
  };
}
