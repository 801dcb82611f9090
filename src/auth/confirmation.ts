/** Bindings of tokens to keys (`cnf`, RFC 7800 §3.1), and proof of possession by client certificate. */
import { timingSafeEqual } from "node:crypto";
import type { InboundRequest } from "../base/inbound-request.ts";
import { parseThumbprint, thumbprintOf } from "../base/text-forms.ts";
import type { ForwardedCertificateFormat } from "../base/vocabulary.ts";
import { refusedToken } from "./challenge.ts";
import { callerAddress, isFromIngress, parseForwardedCertificate, type TrustedIngress } from "./trusted-ingress.ts";

/** Supported methods, in any deployment: RFC 8705 §3.1, RFC 9449 §6.1. */
const understood = ["x5t#S256", "jkt"] as const;
type ConfirmationMethod = (typeof understood)[number];

interface KeyBinding {
  readonly method: ConfirmationMethod;
  /** Base64url SHA-256 of the certificate or of the key: 43 characters. */
  readonly thumbprint: string;
}

/**
 * `unbound`: the token has no `cnf`. `unclear`: its `cnf` names no supported method, or both, or is malformed; such a
 * token is never accepted.
 */
export type TokenBinding = KeyBinding | "unbound" | "unclear";

/** Reads a `cnf` claim. Unknown members are ignored (§3.1). */
export function bindingOf(confirmation: unknown): TokenBinding {
  if (confirmation === undefined) return "unbound";
  if (typeof confirmation !== "object" || confirmation === null) return "unclear";
  const [method, ...others] = understood.filter((name) => Object.hasOwn(confirmation, name));
  if (method === undefined || others.length > 0) return "unclear";
  const thumbprint: unknown = (confirmation as Readonly<Record<string, unknown>>)[method];
  if (typeof thumbprint !== "string" || parseThumbprint(thumbprint) === undefined) return "unclear";
  return { method, thumbprint };
}

const keyNames = { "x5t#S256": "client certificate", jkt: "DPoP key" } as const;

/**
 * Returns the thumbprint that the token is bound to by this method.
 * @throws ServiceError `proof_of_possession_failed`
 */
export function boundThumbprint(binding: TokenBinding, method: ConfirmationMethod): string {
  if (binding === "unbound") throw refusedPossession(`the access token is not bound to a ${keyNames[method]}`);
  if (binding === "unclear" || binding.method !== method) {
    throw refusedPossession(`the access token is not bound to exactly one ${keyNames[method]}`);
  }
  return binding.thumbprint;
}

/** @throws ServiceError `proof_of_possession_failed` if the token is bound to a key */
export function requireUnbound(binding: TokenBinding): void {
  if (binding === "unbound") return;
  throw refusedPossession("the access token is bound to a key, which this deployment cannot check");
}

function refusedPossession(message: string): Error {
  return refusedToken("proof_of_possession_failed", message);
}

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
  if (!timingSafeEqual(bound, required(presented)))
    throw refusedPossession("the access token is bound to another client certificate");
}

/** @throws ServiceError `proof_of_possession_failed` if the call presents no client certificate */
export function requireCertificate(inbound: InboundRequest, rule: MutualTlsRule): void {
  required(presentedThumbprint(inbound, rule, () => {}));
}

function required(presented: Buffer | undefined): Buffer {
  if (presented !== undefined) return presented;
  throw refusedPossession("no valid client certificate of a trusted authority was presented");
}

/**
 * Returns the SHA-256, 32 bytes, of the call's client certificate; undefined if it presents none. A call from the
 * trusted ingress is judged by the header that it forwards, even if the ingress has a certificate too; any other call
 * by the TLS session alone.
 * @throws ServiceError `proof_of_possession_failed` if the forwarded value is malformed
 */
function presentedThumbprint(
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

// The peer that asks for a session, from the network alone, before a byte of the body is read.

export interface SessionPeer {
  /** From `callerAddress`. */
  readonly address: string;
  /** Base64url SHA-256 of the client certificate to bind the token to; undefined if it is not to be bound. */
  readonly certificateThumbprint: string | undefined;
}

/**
 * Reads the peer of a call. If tokens are bound to certificates, the peer must present one, as on any other call.
 * @throws ServiceError `proof_of_possession_failed`
 */
export function sessionPeer(
  inbound: InboundRequest,
  ingress: TrustedIngress,
  rule: NoPossessionRule | MutualTlsRule,
  onCertificateIgnored: OnCertificateIgnored,
): SessionPeer {
  const address = callerAddress(inbound, ingress);
  if (rule.mode === "none") return { address, certificateThumbprint: undefined };
  const thumbprint = required(presentedThumbprint(inbound, rule, onCertificateIgnored));
  return { address, certificateThumbprint: thumbprint.toString("base64url") };
}
