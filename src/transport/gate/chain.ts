/**
 * The ordered list of what every call passes, on every protocol. The gate runs on the headers alone, before a byte of
 * the body is read. The checks run on the message, before the handler.
 */
import { requireScopes as assertScopes, matchTenantHeader } from "../../auth/authenticator.ts";
import { presentedScheme, refusedToken } from "../../auth/challenge.ts";
import type { SessionPeer } from "../../auth/confirmation.ts";
import type { Caller } from "../../base/caller.ts";
import { invalidRequest, invalidRequests, type ServiceError } from "../../base/errors.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { traced } from "../../base/trace.ts";
import type { Call, ReceiptDetail } from "../calls/call.ts";
import type { Checks } from "../calls/exchange.ts";
import { createGate, type Gate, type GateLink } from "../calls/exchange.ts";
import { rulesOf } from "../codec/rules.ts";

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

// The links of the gate, in the order of the chain.

/** Verifies credentials. Rejects with a `ServiceError` if they are not accepted. */
interface CredentialVerifier {
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Verifies credentials of an open stream again, without proofs that can be used only once. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
}

/** First link: authenticates the caller and sets `call.caller`, on which later links rely. */
function authenticate(verifier: CredentialVerifier): GateLink {
  return async ({ call, signal }) => {
    call.caller = await traced(call.span, "authenticate", () => verifier.authenticate(call.inbound, signal));
    call.span?.authenticated();
  };
}

/** First link for an open stream: checks that the credentials are still good and name the same caller. */
function authenticateStill(verifier: CredentialVerifier): GateLink {
  return async ({ call, signal }) => {
    const { caller: before } = call;
    const caller = await verifier.authenticateStill(call.inbound, signal);
    if (before?.tenantId !== caller.tenantId || before.principalId !== caller.principalId)
      throw refusedToken("invalid_token", "the credentials name another caller by now");
    call.caller = caller;
  };
}

/** Second link: a forwarded tenant header must equal the tenant of the credentials (specification 5.5). */
function matchTenant(headerName: string): GateLink {
  return ({ call: { caller, inbound } }) => {
    if (caller !== undefined) matchTenantHeader(caller, inbound, headerName);
  };
}

/** Third link: the scopes of the route, default ones included (specification 5.7). */
function requireScopes(requiredScopes: (rpc: string) => readonly string[]): GateLink {
  return ({ call: { caller, inbound }, rpc }) => {
    if (caller !== undefined) assertScopes(caller, requiredScopes(rpc), presentedScheme(inbound));
  };
}

/** Notes the peer that asks for a session. Refuses as `sessionPeer` does. */
export function noteSessionPeer(peerOf: (inbound: InboundRequest) => SessionPeer): GateLink {
  return ({ call }) => {
    call.sessionPeer = peerOf(call.inbound);
  };
}

// What a call passes once its message is read, before its handler.

/** Returns the checks in their order: call options, rules of the message, quotas of its items. */
function createChecks({ headerPrefix, itemQuotas }: ChainOptions): Checks {
  const readOptions = readCallOptions(headerPrefix);
  return ({ call, rpc, desc, message, signal }) => {
    readOptions(call);
    const violations = rulesOf(desc)(message);
    if (violations.length > 0) throw invalidRequests(violations);
    return call.items === undefined ? undefined : itemQuotas?.(rpc, call, signal);
  };
}

const idempotencyHeader = "idempotency-key";
/** Visible ASCII. A header that is sent twice is joined with a space, and so refused. */
const idempotencyKey = /^[\x21-\x7e]{1,128}$/;
const receiptDetails: readonly string[] = ["full", "brief", "cose", "none"] satisfies ReceiptDetail[];
const bulkReceiptDetails: readonly string[] = ["full", "brief", "cose", "range", "none"] satisfies ReceiptDetail[];

/**
 * Reads the caller's options from headers (gRPC: metadata): `idempotency-key`, and `receipt` under the deployment's
 * prefix. Refuses invalid values without repeating them.
 */
export function readCallOptions(headerPrefix: string): (call: Call) => void {
  const receiptHeader = `${headerPrefix}receipt`;
  return (call) => {
    const key = headerOf(call, idempotencyHeader);
    if (key !== undefined) {
      if (!idempotencyKey.test(key)) throw refuse(idempotencyHeader, "must be 1 to 128 visible characters");
      call.idempotencyKey = key;
    }
    const detail = headerOf(call, receiptHeader);
    if (detail !== undefined) {
      const known = call.items === undefined ? receiptDetails : bulkReceiptDetails;
      if (!known.includes(detail)) throw refuse(receiptHeader, `must be ${known.slice(0, -1).join(", ")} or none`);
      call.receiptDetail = detail as ReceiptDetail;
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
