/** Proof of possession by client certificate: a bound token counts only together with its key. */
import { timingSafeEqual } from "node:crypto";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { thumbprintOf } from "../../base/text-forms.ts";
import { refusedToken } from "../challenge.ts";
import { isFromIngress, type TrustedIngress } from "../trusted-ingress.ts";
import { boundThumbprint, type TokenBinding } from "./confirmation-method.ts";
import { type ForwardedCertificateFormat, parseForwardedCertificate } from "./forwarded-certificate.ts";

/** Tokens must not be bound: a binding that cannot be checked is refused, not ignored. */
export interface NoPossessionRule {
  readonly mode: "none";
}

/** Tokens must be bound to the client's certificate (RFC 8705 §3). */
export interface MutualTlsRule {
  readonly mode: "mtls";
  /** Lowercase name of the header in which the ingress forwards the certificate. */
  readonly headerName: string;
  readonly format: ForwardedCertificateFormat;
  /** The only peer whose forwarded certificate counts. */
  readonly ingress: TrustedIngress;
}

/** Called when another peer sends the header. */
export type OnCertificateIgnored = (remoteAddress: string) => void;

/**
 * Checks that the call presents the client certificate that its token is bound to.
 * @throws ServiceError `proof_of_possession_failed`
 */
export function confirmCertificate(
  binding: TokenBinding,
  inbound: InboundRequest,
  rule: MutualTlsRule,
  onCertificateIgnored: OnCertificateIgnored,
): void {
  const presented = presentedThumbprint(inbound, rule, onCertificateIgnored);
  const bound = Buffer.from(boundThumbprint(binding, "x5t#S256"), "base64url");
  if (presented === undefined) throw refusedPossession("no client certificate of a trusted authority was presented");
  if (!timingSafeEqual(bound, presented))
    throw refusedPossession("the access token is bound to another client certificate");
}

/** @throws ServiceError `proof_of_possession_failed` if the call presents no client certificate */
export function requireCertificate(inbound: InboundRequest, rule: MutualTlsRule): void {
  if (presentedThumbprint(inbound, rule, () => {}) !== undefined) return;
  throw refusedPossession("no client certificate of a trusted authority was presented");
}

/**
 * Returns the SHA-256, 32 bytes, of the call's client certificate; undefined if it presents none. A call from the
 * trusted ingress is judged by the header that it forwards, even if the ingress has a certificate too; any other call
 * by the TLS session alone.
 * @throws ServiceError `proof_of_possession_failed` if the forwarded value is malformed
 */
export function presentedThumbprint(
  inbound: InboundRequest,
  rule: MutualTlsRule,
  onCertificateIgnored: OnCertificateIgnored,
): Buffer | undefined {
  const forwarded = inbound.headerValues(rule.headerName);
  if (!isFromIngress(inbound, rule.ingress)) {
    if (forwarded.length > 0) onCertificateIgnored(inbound.remoteAddress);
    const der = inbound.clientCertificate?.();
    return der === undefined ? undefined : thumbprintOf(der);
  }
  const [value] = forwarded;
  // nginx forwards an empty value, or drops the header, if the client came without a certificate.
  if (value === undefined || (value === "" && forwarded.length === 1)) return undefined;
  const thumbprint = forwarded.length === 1 ? parseForwardedCertificate(value, rule.format) : undefined;
  if (thumbprint === undefined) throw refusedPossession("the forwarded client certificate is not well formed");
  return thumbprint;
}

/** 401: the call does not prove possession of the key. */
export function refusedPossession(message: string): Error {
  return refusedToken("proof_of_possession_failed", message);
}
