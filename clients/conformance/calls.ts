/** One call, whatever it came over: who calls, what the script says, what is recorded, what is answered. */
import { create, type DescMessage, type JsonObject, type MessageShape, toJson } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createContextKey, type HandlerContext } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { verifyProof } from "./dpop.ts";
import type { ScriptedIssuer } from "./issuer.ts";
import { briefOf, type LoggedRecord, type ScriptedLog } from "./log.ts";
import type { Route } from "./protocol.ts";
import { answerOf, merged, methods, recordOf, resultMembers, services } from "./requests.ts";
import type { Act, SeenCall, ServerScript } from "./script.ts";
import { nowMs, pause } from "./sockets.ts";

export interface ServerState {
  readonly script: ServerScript;
  readonly issuer: ScriptedIssuer;
  readonly records: Map<string, string>;
  /** Where the script has receipts. */
  readonly log: ScriptedLog | undefined;
  readonly usedProofs: Set<string>;
  /** Calls that have been let in. */
  lettingIn: number;
  readonly stopping: AbortSignal;
}

/** A call on its way in. */
export interface Arrival {
  readonly seen: SeenCall;
  readonly act: Act;
  readonly url: string;
  readonly method: string;
  /** Resets its connection. */
  readonly reset: () => void;
}

export const arrivalKey = createContextKey<Arrival | undefined>(undefined);
export const requestId = "request-42";

/** Serves the eight calls on gRPC, gRPC-Web and Connect. */
export function callRouter(state: ServerState): (router: ConnectRouter) => void {
  return (router) => {
    for (const service of services) {
      for (const method of service.methods) {
        const handle = async (request: MessageShape<DescMessage>, context: HandlerContext) => {
          const arrival = context.values.get(arrivalKey);
          if (arrival === undefined) throw new ConnectError("no arrival", Code.Internal);
          return answer(state, arrival, request, context.responseHeader);
        };
        router.rpc(method, handle as never);
      }
    }
  };
}

/** The answer. Throws the refusal. */
export async function answer(
  state: ServerState,
  arrival: Arrival,
  request: MessageShape<DescMessage>,
  responseHeaders: Headers,
): Promise<MessageShape<DescMessage>> {
  const { seen, act } = arrival;
  const { route } = seen;
  seen.message = request;
  if (route === undefined) throw new ConnectError("no such call", Code.Unimplemented);
  await admit(state, arrival, responseHeaders);
  if (act.does === "answer" || act.does === "refuse") {
    if (act.afterMs !== undefined) await pause(act.afterMs, state.stopping);
    for (const [name, value] of Object.entries(act.headers ?? {})) responseHeaders.set(name, value);
  }
  if (act.does === "refuse") throw refusalOf(act);
  const result = recorded(state, seen, route, request);
  if (act.does === "commit-and-reset") {
    arrival.reset();
    throw new ConnectError("reset", Code.Unavailable);
  }
  const change = act.does === "answer" ? (act.change ?? {}) : {};
  const message = answerOf(route, result, change);
  if (act.does === "answer" && act.newer === true) addNewer(message);
  return message;
}

/** Fields that this version of the contract does not have. */
function addNewer(message: MessageShape<DescMessage>): void {
  // Field 2000, a string.
  message.$unknown = [{ no: 2000, wireType: 2, data: Uint8Array.of(3, 0x6e, 0x65, 0x77) }];
}

/** What a decision or record carries of its own: the same for the same idempotency key. */
function recorded(state: ServerState, seen: SeenCall, route: Route, request: MessageShape<DescMessage>): object {
  const { records } = state;
  const member = resultMembers[route];
  if (member === undefined) return {};
  const isDecision = member === "decision";
  const key = seen.idempotencyKey ?? `unkeyed ${records.size}`;
  const id = records.get(`${route} ${key}`) ?? `01890a5d-ac96-774b-bcce-${String(records.size).padStart(12, "0")}`;
  records.set(`${route} ${isDecision ? records.size : key}`, id);
  const receipt = receiptOf(state, seen.headers["x-svc-receipt"], recordOf(route, request, id));
  return { [member]: { ...(receipt !== undefined && { receipt }), ...(isDecision && { decisionId: id }) } };
}

function receiptOf({ script, log }: ServerState, asked: string | undefined, record: LoggedRecord) {
  const { receipts } = script;
  if (receipts === undefined || log === undefined || asked === "none") return undefined;
  const whole = log.append(merged(record, receipts.record ?? {}));
  const receipt = asked === "brief" ? briefOf(whole) : whole;
  return receipts.change?.(receipt) ?? receipt;
}

/** Lets the call in, or throws why not; notes it as a fault where the case did not ask for it. */
async function admit(state: ServerState, { seen, url, method }: Arrival, responseHeaders: Headers): Promise<void> {
  const { script, issuer, usedProofs } = state;
  const refuse = (reason: string, message: string, headers: Record<string, string> = {}): never => {
    seen.fault = `${reason}: ${message}`;
    throw refusalOf({ does: "refuse", code: "unauthenticated", reason, headers }, message);
  };
  if (script.demandsCertificate !== false && seen.certificate === undefined)
    refuse("proof_of_possession_failed", "no client certificate");
  if (seen.token === undefined) return void refuse("missing_token", "no token");
  const token = issuer.tokens.get(seen.token);
  if (token === undefined) return void refuse("invalid_token", "the token is not of this issuer");
  if (nowMs() > token.expiresAtMs) refuse("expired_token", "the token has expired");
  const scheme = seen.headers.authorization?.split(" ")[0];
  if (token.thumbprint === undefined) {
    if (scheme !== "Bearer") refuse("invalid_token", "the scheme is not Bearer");
  } else {
    if (scheme !== "DPoP") refuse("proof_of_possession_failed", "the scheme is not DPoP");
    const [target = ""] = url.split("?");
    const proof = await verifyProof(seen.headers.dpop ?? "", { method, url: target, token: seen.token }, usedProofs);
    if (typeof proof === "string") return void refuse("proof_of_possession_failed", proof);
    seen.proof = proof;
    if (proof.thumbprint !== token.thumbprint) refuse("proof_of_possession_failed", "the key is not the token's");
    checkNonce(state, seen, responseHeaders, refuse);
  }
  state.lettingIn += 1;
}

function checkNonce(
  { script, lettingIn }: ServerState,
  seen: SeenCall,
  responseHeaders: Headers,
  refuse: (reason: string, message: string, headers: Record<string, string>) => never,
): void {
  const { nonces = [], announcesNonces = false, challengesForEver = false } = script;
  const challenge = (nonce: string) =>
    refuse("proof_of_possession_failed", "use the nonce", {
      "dpop-nonce": nonce,
      "www-authenticate": 'DPoP error="use_dpop_nonce"',
    });
  if (challengesForEver) challenge(`never-${nowMs()}`);
  if (nonces.length === 0) return;
  const wanted = nonces[Math.min(lettingIn, nonces.length - 1)] as string;
  if (seen.proof?.nonce !== wanted) challenge(wanted);
  const next = nonces[Math.min(lettingIn + 1, nonces.length - 1)] as string;
  if (announcesNonces) responseHeaders.set("dpop-nonce", next);
}

/** As the service refuses: `ErrorInfo`, `BadRequest` and `RetryInfo`, and the headers that go with them. */
function refusalOf(act: Extract<Act, { does: "refuse" }>, message = "refused by the script"): ConnectError {
  const { code, reason, missingScopes, violations, retryAfterSeconds, headers = {} } = act;
  const retryAfter = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
  const error = new ConnectError(message, codeFromString(code) ?? Code.Unknown, { ...headers, ...retryAfter });
  const metadata = { request_id: requestId, ...(missingScopes && { missing_scopes: missingScopes.join(" ") }) };
  const info = create(ErrorInfoSchema, { reason, domain: "svc-platform-api", metadata });
  error.details.push({ desc: ErrorInfoSchema, value: info });
  if (violations !== undefined) {
    const fieldViolations = violations.map(({ field, rule, message }) => ({
      field,
      reason: rule,
      description: message,
    }));
    error.details.push({ desc: BadRequestSchema, value: create(BadRequestSchema, { fieldViolations }) });
  }
  if (retryAfterSeconds !== undefined) {
    const retryDelay = { seconds: BigInt(retryAfterSeconds) };
    error.details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return error;
}

/** A message as protobuf JSON, for what cases compare. */
export function jsonOf(route: Route, message: MessageShape<DescMessage>): JsonObject {
  return toJson(methods[route].input, message) as JsonObject;
}
