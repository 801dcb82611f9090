/** Who is let in, and how the others are refused. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import type { Arrival, ServerState } from "./calls.ts";
import { verifyProof } from "./dpop.ts";
import type { Refusal, SeenCall } from "./script.ts";
import { nowMs } from "./sockets.ts";

const requestId = "request-42";

/** Lets the call in, or throws why not; notes it as a fault where the case did not ask for it. */
export async function admit(
  state: ServerState,
  { seen, url, method }: Arrival,
  responseHeaders: Headers,
): Promise<void> {
  const { script, issuer, usedProofs } = state;
  const refuse = (reason: string, message: string, headers: Record<string, string> = {}): never => {
    seen.fault = `${reason}: ${message}`;
    throw refusalOf({ code: "unauthenticated", reason, headers }, message);
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
export function refusalOf(refusal: Omit<Refusal, "does">, message = "refused by the script"): ConnectError {
  const { code, reason, missingScopes, violations, retryAfterSeconds, headers = {} } = refusal;
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
