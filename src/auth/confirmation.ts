/** Proof of possession: a token that is bound to a key is worth nothing without it. */
import { timingSafeEqual } from "node:crypto";
import { isInNetworks, type Network } from "../base/network.ts";
import { refusedToken } from "./challenge.ts";
import type { EdgeRequest } from "./edge.ts";
import {
  type ForwardedCertificateFormat,
  parseForwardedCertificate,
  parseThumbprint,
  thumbprintOf,
} from "./forwarded-certificate.ts";

/** How possession is proved in this deployment. */
export type ProofOfPossessionRule =
  | {
      /** Tokens must be bound to nobody: a binding that cannot be checked is refused, not overlooked. */
      readonly mode: "none";
    }
  | {
      /** Tokens must be bound to the client's certificate (RFC 8705 §3). */
      readonly mode: "mtls";
      /** Lowercase name of the header in which a trusted ingress forwards the certificate. */
      readonly headerName: string;
      readonly format: ForwardedCertificateFormat;
      /** Peers whose forwarded certificate counts, and only it. */
      readonly trustedProxies: readonly Network[];
    };

type MutualTlsRule = Extract<ProofOfPossessionRule, { mode: "mtls" }>;

/** Told where the header came from someone who is not believed. */
export type OnCertificateIgnored = (remoteAddress: string) => void;

/**
 * Checks that a verified token's `cnf` claim fits the call that carries it. To be called on every call, however the
 * token was verified.
 * @param confirmation the `cnf` claim; undefined where the token has none
 * @throws ServiceError `proof_of_possession_failed`
 */
export function confirmPossession(
  confirmation: unknown,
  edge: EdgeRequest,
  rule: ProofOfPossessionRule,
  onCertificateIgnored: OnCertificateIgnored,
): void {
  if (rule.mode === "none") {
    if (confirmation === undefined) return;
    throw failed("the access token is bound to a key, which this deployment cannot check");
  }
  const presented = presentedThumbprint(edge, rule, onCertificateIgnored);
  const bound = boundThumbprint(confirmation);
  if (presented === undefined) throw failed("no client certificate was presented");
  if (!timingSafeEqual(bound, presented)) throw failed("the access token is bound to another client certificate");
}

/** `x5t#S256` must be the one and only confirmation method: what cannot be checked must not be claimed. */
function boundThumbprint(confirmation: unknown): Buffer {
  if (confirmation === undefined) throw failed("the access token is not bound to a client certificate");
  const methods = typeof confirmation === "object" && confirmation !== null ? Object.entries(confirmation) : [];
  const [name, value] = methods.length === 1 ? (methods[0] as [string, unknown]) : [];
  const thumbprint = name === "x5t#S256" && typeof value === "string" ? parseThumbprint(value) : undefined;
  if (thumbprint === undefined) throw failed("the access token is not bound to exactly one client certificate");
  return thumbprint;
}

/**
 * A trusted proxy is judged by the header that it forwards, even where it came with a certificate of its own;
 * everybody else by the TLS session alone.
 */
function presentedThumbprint(
  edge: EdgeRequest,
  rule: MutualTlsRule,
  onCertificateIgnored: OnCertificateIgnored,
): Buffer | undefined {
  const forwarded = edge.headerValues(rule.headerName);
  if (!isInNetworks(rule.trustedProxies, edge.remoteAddress)) {
    if (forwarded.length > 0) onCertificateIgnored(edge.remoteAddress);
    const der = edge.clientCertificate?.();
    return der === undefined ? undefined : thumbprintOf(der);
  }
  const [value] = forwarded;
  // nginx forwards an empty value, or drops the header, where the client came without a certificate.
  if (value === undefined || (value === "" && forwarded.length === 1)) return undefined;
  const thumbprint = forwarded.length === 1 ? parseForwardedCertificate(value, rule.format) : undefined;
  if (thumbprint === undefined) throw failed("the forwarded client certificate is not well formed");
  return thumbprint;
}

function failed(message: string): Error {
  return refusedToken("proof_of_possession_failed", message);
}
