/** Reads the `cnf` claim, which binds a token to a key (RFC 7800 §3.1). */
import { parseThumbprint } from "../../base/text-forms.ts";
import { refusedToken } from "../challenge.ts";

/** Supported methods, in any deployment: RFC 8705 §3.1, RFC 9449 §6.1. */
const understood = ["x5t#S256", "jkt"] as const;
export type ConfirmationMethod = (typeof understood)[number];

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
  if (binding === "unbound") throw refusedBinding(`the access token is not bound to a ${keyNames[method]}`);
  if (binding === "unclear" || binding.method !== method) {
    throw refusedBinding(`the access token is not bound to exactly one ${keyNames[method]}`);
  }
  return binding.thumbprint;
}

/** @throws ServiceError `proof_of_possession_failed` if the token is bound to a key */
export function requireUnbound(binding: TokenBinding): void {
  if (binding === "unbound") return;
  throw refusedBinding("the access token is bound to a key, which this deployment cannot check");
}

function refusedBinding(message: string): Error {
  return refusedToken("proof_of_possession_failed", message);
}
