/** Content keys wrapped by OpenBao or Vault, with the documented API of the transit engine. */
import { EnforcementError } from "./errors.ts";
import type { KeyProvider } from "./keys.ts";

export interface TransitOptions {
  /** Such as `https://bao.example.com:8200`. `http` on loopback only. Authorities are those that Node trusts. */
  readonly address: string;
  /** Returns the workload's token; called each time, so that it may be renewed. */
  readonly token: () => string | Promise<string>;
  /** Name of the key, of type `aes256-gcm96` or another with associated data. */
  readonly key: string;
  /**
   * Key reference for decisions: one that the deployment manages (`SVC_KEY_REFERENCES`), such as `kms://bao/payroll`.
   */
  readonly reference: string;
  /** Mount path of the engine. Default `transit`. */
  readonly mount?: string;
  readonly namespace?: string;
  /** Time for one call, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
}

/** The key-encryption key stays in the engine, which wraps and unwraps, bound to the associated data. */
export function transitKey(options: TransitOptions): KeyProvider {
  const { address, key, reference, mount = "transit" } = options;
  requireSafe(address);
  const call = async (operation: "encrypt" | "decrypt", input: Readonly<Record<string, string>>, member: string) => {
    const path = [...mount.split("/"), operation, key].map(encodeURIComponent).join("/");
    const { status, text } = await send(`${address.replace(/\/$/, "")}/v1/${path}`, input, options);
    // 400 means that it cannot decrypt with this associated data; other statuses are not about the ciphertext.
    if (operation === "decrypt" && status === 400)
      throw new EnforcementError("not_authentic", "the content key does not open with this key and header");
    const value = status === 200 ? memberOf(text, member) : undefined;
    if (value === undefined) throw unavailable(`HTTP ${status}`);
    return value;
  };
  return {
    provider: "transit",
    reference,
    transport: "wrapped_key_reference",
    wrap(contentKey, associatedData) {
      const input = { plaintext: base64(contentKey), associated_data: base64(associatedData) };
      return call("encrypt", input, "ciphertext");
    },
    async unwrap(wrapped, associatedData) {
      const plaintext = await call(
        "decrypt",
        { ciphertext: wrapped, associated_data: base64(associatedData) },
        "plaintext",
      );
      const contentKey = Buffer.from(plaintext, "base64");
      if (contentKey.length !== 32) throw new EnforcementError("not_authentic", "that is no content key");
      return contentKey;
    },
  };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

function requireSafe(address: string): void {
  const { protocol, hostname } = new URL(address);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback))
    throw new EnforcementError("invalid", "keys travel over https alone, save on loopback");
}

async function send(url: string, input: object, { token, namespace, timeoutMs = 10_000 }: TransitOptions) {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-vault-request": "true",
        "x-vault-token": await token(),
        ...(namespace !== undefined && { "x-vault-namespace": namespace }),
      },
      body: JSON.stringify(input),
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw unavailable(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function memberOf(text: string, member: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)?.data?.[member];
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

function unavailable(why: string, cause?: unknown): EnforcementError {
  return new EnforcementError("unavailable", `the key service gave no answer: ${why}`, { cause });
}
