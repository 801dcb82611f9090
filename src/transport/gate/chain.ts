/**
 * What every call passes, in order, on every protocol. The gate runs on the headers alone, before a byte of
 * the body is read. The checks run on the message, before the handler.
 */
import { type Authenticator, matchTenantHeader, requireScopes } from "../../auth/authenticator.ts";
import { presentedScheme, refusedToken } from "../../auth/challenge.ts";
import type { SessionPeer } from "../../auth/confirmation.ts";
import type { Caller } from "../../base/caller.ts";
import { invalidRequest, invalidRequests, type ServiceError } from "../../base/errors.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { traced } from "../../base/trace.ts";
import { Accounts } from "../../http/admit.ts";
import { type Call, receiptDetails } from "../calls/call.ts";
import type { Checks, Gate, GateContext, GateLink } from "../calls/exchange.ts";
import { rulesOf } from "../codec/rules.ts";

export interface ChainOptions {
  /** Lowercase prefix of our own headers, such as `x-svc-`. */
  readonly headerPrefix: string;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
  readonly verifier: Pick<Authenticator, "authenticate" | "authenticateStill">;
  /** Whether calls may carry access tokens. Default: true. */
  readonly takesTokens?: boolean | undefined;
  /** Scopes of a method, default ones included. */
  readonly requiredScopes: (rpc: string) => readonly string[];
  /** Enforces quotas of tenants; absent if there are none. */
  readonly quotas?: GateLink | undefined;
  /** Gates of methods without credentials, by `Service/Method`. Default: none. */
  readonly withoutCredentials?: ReadonlyMap<string, Gate>;
}

export interface Chain {
  readonly gate: Gate;
  /** Gate for a stream that is open: detects credentials that were revoked or count for less since it began. */
  readonly gateStill: Gate;
  readonly checks: Checks;
  /** Reads the call options of a stream, which has no checks. Throws `invalid_request`. */
  readonly readOptions: (call: Call) => void;
  /** Recognizes callers for admission, before their credentials are verified. */
  readonly accounts: Accounts;
}

export function createChain(options: ChainOptions): Chain {
  const { headerPrefix, addressOf, verifier, takesTokens, requiredScopes, quotas, withoutCredentials } = options;
  const tenantHeader = `${headerPrefix}tenant-id`;
  const readOptions = readCallOptions(headerPrefix);
  const accounts = new Accounts({ addressOf, tenantHeader, takesTokens });
  /** A forwarded tenant header must equal the tenant of the credentials; then the scopes (specification 5.5, 5.7). */
  const requireAllowed = (caller: Caller, { call: { inbound }, rpc }: GateContext) => {
    matchTenantHeader(caller, inbound, tenantHeader);
    requireScopes(caller, requiredScopes(rpc), presentedScheme(inbound));
  };
  const guarded: Gate = async (context) => {
    const { call, signal } = context;
    call.caller = await traced(call.span, "authenticate", () => verifier.authenticate(call.inbound, signal));
    call.span?.authenticated();
    const { tenantId } = call.caller;
    call.ticket?.belongsTo(tenantId);
    accounts.recognize(call.inbound, tenantId);
    requireAllowed(call.caller, context);
    const pending = quotas?.(context);
    if (pending !== undefined) await pending;
  };
  return {
    gate: (context) => (withoutCredentials?.get(context.rpc) ?? guarded)(context),
    async gateStill(context) {
      const { call, signal } = context;
      const caller = await verifier.authenticateStill(call.inbound, signal);
      if (call.caller?.tenantId !== caller.tenantId || call.caller.principalId !== caller.principalId)
        throw refusedToken("invalid_token", "the credentials name another caller by now");
      call.caller = caller;
      requireAllowed(caller, context);
    },
    checks(call, desc, message) {
      readOptions(call);
      const violations = rulesOf(desc)(message);
      if (violations.length > 0) throw invalidRequests(violations);
    },
    readOptions,
    accounts,
  };
}

/** Gate of the session route: notes the peer that asks for a session. Refuses as `sessionPeer` does. */
export function noteSessionPeer(peerOf: (inbound: InboundRequest) => SessionPeer): Gate {
  return async ({ call }) => {
    call.sessionPeer = peerOf(call.inbound);
  };
}

const idempotencyHeader = "idempotency-key";
/** Visible ASCII. A header that is sent twice is joined with a space, and so refused. */
const idempotencyKey = /^[\x21-\x7e]{1,128}$/;

/**
 * Reads the caller's options from headers (gRPC: metadata): `idempotency-key`, and `receipt` under the deployment's
 * prefix. Refuses invalid values without repeating them.
 */
function readCallOptions(headerPrefix: string): (call: Call) => void {
  const receiptHeader = `${headerPrefix}receipt`;
  return (call) => {
    const key = headerOf(call, idempotencyHeader);
    if (key !== undefined) {
      if (!idempotencyKey.test(key)) throw refuse(idempotencyHeader, "must be 1 to 128 visible characters");
      call.idempotencyKey = key;
    }
    const detail = headerOf(call, receiptHeader);
    if (detail !== undefined) {
      const known = receiptDetails.filter((each) => each !== "range" || call.items !== undefined);
      const found = known.find((each) => each === detail);
      if (found === undefined) throw refuse(receiptHeader, `must be ${known.slice(0, -1).join(", ")} or none`);
      call.receiptDetail = found;
    }
  };
}

/**
 * Returns the values of a header joined as `Headers` does: trimmed, and separated by a comma and a space. Building
 * `Headers` for a call would take longer than the rest of its way to the handler.
 */
function headerOf({ inbound }: Call, name: string): string | undefined {
  const values = inbound.headerValues(name);
  if (values.length === 0) return undefined;
  return new Headers(values.map((value): [string, string] => [name, value])).get(name) ?? undefined;
}

function refuse(header: string, message: string): ServiceError {
  return invalidRequest("", "http.headers", `header ${header} ${message}`);
}
