/** What changes between two policy directories, for machines and for people. */
import type { RecordedChange, RecordedComparison } from "../../domain/recorded-differences.ts";
import { type PolicyChange, type PolicyComparison, unnamedTenant } from "../../policy/diff/compare.ts";
import type { PolicyDecision } from "../../policy/engine/decision.ts";

type Answer = Pick<PolicyDecision, "allow" | "reasons">;

export function comparisonMembers({ changes, undecided }: PolicyComparison) {
  return {
    ways: changes.map(({ difference, cause, tenants, actions, example, before, after }) => ({
      kind: difference.kind,
      cause,
      tenants,
      actions,
      guidance: difference.guidance.map(memberName),
      before: answerMembers(before),
      after: answerMembers(after),
      example,
    })),
    undecided,
  };
}

export function recordedMembers({ compared, passedOver, notLookedUp, changes }: RecordedComparison) {
  return {
    compared,
    passed_over: passedOver,
    not_looked_up: notLookedUp,
    ways: changes.map(({ kind, before, after, count, callers, example }) => ({
      kind,
      count,
      before: answerMembers(before),
      after: answerMembers(after),
      callers: callers.map(({ tenantId, application, count: own }) => ({
        tenant_id: tenantId,
        ...(application !== undefined && { application }),
        count: own,
      })),
      example: { tenant_id: example.tenantId, decision_id: example.decisionId },
    })),
  };
}

function answerMembers({ allow, reasons }: Answer) {
  return { allow, reasons };
}

export function comparisonText({ changes, undecided }: PolicyComparison): string {
  return [
    ...changes.flatMap(changeLines),
    ...(undecided.length === 0
      ? [changes.length === 0 ? "every request is decided alike" : "every other request is decided alike"]
      : ["the search was not exhaustive; it did not decide:", ...undecided.map((reason) => `  ${reason}`)]),
  ].join("\n");
}

function changeLines({ difference, cause, tenants, actions, before, after, example }: PolicyChange): readonly string[] {
  const { kind, guidance } = difference;
  const names = tenants.map((tenant) => (tenant === unnamedTenant ? "any other tenant" : tenant));
  return [
    `${kind}: ${cause}`,
    `  for ${listed(names)}: ${actions.join(", ")}`,
    ...(guidance.length === 0 ? [] : [`  other guidance: ${guidance.map(memberName).join(", ")}`]),
    `  was ${answerText(before)}`,
    `  is ${answerText(after)}`,
    `  example: ${JSON.stringify(example)}`,
  ];
}

/** As annotations and answers have it. */
function memberName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Names that one line carries. */
const maxListed = 5;

function listed(names: readonly string[]): string {
  const more = names.length - maxListed;
  return `${names.slice(0, maxListed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function answerText({ allow, reasons }: Answer): string {
  return `${allow ? "ALLOW" : "DENY"}, because of ${reasons.join(", ") || "no policy"}`;
}

export function recordedText({ compared, passedOver, notLookedUp, changes }: RecordedComparison): string {
  const differing = changes.reduce((sum, { kind, count }) => sum + (kind === "reasons" ? 0 : count), 0);
  return [
    `recorded decisions: ${compared} compared, ${differing} come out differently, ${passedOver} passed over`,
    ...(notLookedUp === 0 ? [] : [`  not compared: ${notLookedUp}, for which nobody looked up what was registered`]),
    ...changes.flatMap(recordedLines),
  ].join("\n");
}

function recordedLines({ kind, count, before, after, callers, example }: RecordedChange): readonly string[] {
  const more = callers.length - maxListed;
  return [
    `  ${kind === "reasons" ? "the same, for other reasons" : kind}: ${count}`,
    `    was ${answerText(before)}`,
    `    is ${answerText(after)}`,
    ...callers
      .slice(0, maxListed)
      .map(
        ({ tenantId, application = "other applications", count: own }) => `    ${own} of ${tenantId}, ${application}`,
      ),
    ...(more > 0 ? [`    and ${more} more applications`] : []),
    `    example: --tenant ${example.tenantId} --decision ${example.decisionId}`,
  ];
}
