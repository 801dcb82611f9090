/**
 * The value of the confirmation method in a `cnf` claim (RFC 7800 §3.1), which must be the one and only: what cannot
 * be checked must not be claimed. Undefined where there are others, or it is none of text.
 */
export function onlyConfirmationMethod(confirmation: unknown, method: "x5t#S256" | "jkt"): string | undefined {
  const methods = typeof confirmation === "object" && confirmation !== null ? Object.entries(confirmation) : [];
  const [name, value] = methods.length === 1 ? (methods[0] as [string, unknown]) : [];
  return name === method && typeof value === "string" ? value : undefined;
}
