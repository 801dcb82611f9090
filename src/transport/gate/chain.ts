/**
 * The one ordered list of what every call passes, on every protocol. The gate runs on the headers alone, before a
 * byte of the body is read; interceptors run around the handler, the first of them outermost. A test pins both
 * orders.
 */
import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import type { Call } from "../calls/call.ts";
import { createRules, type Rules, validate } from "../codec/validate.ts";
import { createGate, type Gate, type GateLink } from "./gate.ts";
import { countItems, enforceDeadline, readCallOptions, reportErrors } from "./interceptors.ts";
import { authenticate, authenticateStill, type CredentialVerifier, matchTenant, requireScopes } from "./links.ts";

export interface ChainOptions {
  /** Name of the service in error details. */
  readonly service: string;
  /** Lowercase prefix of our own headers, such as `x-svc-`. */
  readonly headerPrefix: string;
  readonly verifier: CredentialVerifier;
  /** Scopes of a method, default ones included. */
  readonly requiredScopes: (rpc: string) => readonly string[];
  /** What holds callers to their tenants' quotas; absent where there are none. */
  readonly quotas?: GateLink | undefined;
  /** What holds the items of bulk calls to them, once they are counted; absent where there are none. */
  readonly itemQuotas?: ((rpc: string, call: Call, signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * The methods that need no credentials, by `Service/Method`, each with what it passes in place of the gate's links;
   * every other method passes those. None where absent.
   */
  readonly withoutCredentials?: ReadonlyMap<string, readonly GateLink[]>;
  /** Requests whose rules are compiled at start-up. */
  readonly warmUp: readonly { readonly desc: DescMessage; readonly sample: Message }[];
}

export interface Chain {
  readonly gate: Gate;
  /** What a call that goes on passes again, for credentials that were called back, or count for less, since it began. */
  readonly gateStill: Gate;
  readonly interceptors: Interceptor[];
  /** What `validate` holds requests to, for adapters that have more to say of a request that they cannot read. */
  readonly rules: Rules;
}

/** Builds gate and interceptors in their order. */
export function createChain(options: ChainOptions): Chain {
  const allowed = [matchTenant(`${options.headerPrefix}tenant-id`), requireScopes(options.requiredScopes)];
  const guarded = createGate([
    authenticate(options.verifier),
    ...allowed,
    ...(options.quotas === undefined ? [] : [options.quotas]),
  ]);
  const rules = createRules(options.warmUp);
  const open = new Map([...(options.withoutCredentials ?? [])].map(([rpc, links]) => [rpc, createGate(links)]));
  return {
    gate: (context) => (open.get(context.rpc) ?? guarded)(context),
    gateStill: createGate([authenticateStill(options.verifier), ...allowed]),
    interceptors: [
      reportErrors(options.service),
      enforceDeadline,
      readCallOptions(options.headerPrefix),
      validate(rules),
      ...(options.itemQuotas === undefined ? [] : [countItems(options.itemQuotas)]),
    ],
    rules,
  };
}
