import { Code, type Problem } from "svc-platform-client";

const advice: Readonly<Record<string, (problem: Problem) => string>> = {
  missing_scope: ({ missingScopes }) => `ask the issuer for these scopes too: ${missingScopes.join(" ")}`,
  proof_of_possession_failed: () =>
    "the token is bound to another client certificate than the one presented, or the service does not trust it",
  invalid_token: () => "the service does not take tokens of this issuer, or for this audience",
};

/** What is wrong, for a person, with the id to name when asking the operator. */
export function describe(problem: Problem): string {
  const { code, message, reason, requestId, violations } = problem;
  const lines = [`${Code[code]}: ${message}`];
  if (reason !== undefined) lines.push(`reason: ${reason}`);
  if (reason !== undefined && advice[reason] !== undefined) lines.push(advice[reason](problem));
  if (requestId !== undefined) lines.push(`request id: ${requestId}`);
  for (const { field, message } of violations) lines.push(`${field}: ${message}`);
  return lines.join("\n  ");
}
