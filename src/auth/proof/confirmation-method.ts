/** What a token's `cnf` claim binds it to (RFC 7800 §3.1). */
import { parseThumbprint } from "../../base/text-forms.ts";
import { refusedToken } from "../challenge.ts";

/** Methods that are understood, whatever the deployment asks for: RFC 8705 §3.1, RFC 9449 §6.1. */
const understood = ["x5t#S256", "jkt"] as const;
export type ConfirmationMethod = (typeof understood)[number];

/** The key that a token is bound to. */
interface KeyBinding {
  readonly method: ConfirmationMethod;
  /** Base64url SHA-256 of the certificate or of the key: 43 characters. */
  readonly thumbprint: string;
}

/**
 * `unbound`: the token has no `cnf`. `unclear`: it has one that names no understood method, both of them, or one
 * malformed; such a token is bound to something, so that it counts nowhere.
 */
export type TokenBinding = KeyBinding | "unbound" | "unclear";

/** Reads a `cnf` claim; undefined where the token has none. Members that are not understood are ignored (§3.1). */
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
 * The thumbprint that the token is bound to by this one method.
 * @throws ServiceError `proof_of_possession_failed`
 */
export function boundThumbprint(binding: TokenBinding, method: ConfirmationMethod): string {
  if (binding === "unbound") throw refusedBinding(`the access token is not bound to a ${keyNames[method]}`);
  if (binding === "unclear" || binding.method !== method) {
    throw refusedBinding(`the access token is not bound to exactly one ${keyNames[method]}`);
  }
  return binding.thumbprint;
}

/** @throws ServiceError `proof_of_possession_failed` where the token is bound to anything at all */
export function requireUnbound(binding: TokenBinding): void {
  if (binding === "unbound") return;
  throw refusedBinding("the access token is bound to a key, which this deployment cannot check");
}

function refusedBinding(message: string): Error {
  return refusedToken("proof_of_possession_failed", message);
}
