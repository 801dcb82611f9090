/** Differences between two policy directories, and what was proven about them, for machines and for people. */
import type { RecordedChange, RecordedComparison } from "../../domain/recorded-differences.ts";
import type { PolicyChange, PolicyComparison } from "../../policy/diff/compare.ts";
import type { Proof } from "../../policy/diff/prove.ts";
import { unnamedTenant } from "../../policy/diff/side.ts";
import type { PolicySummary } from "../../policy/diff/summary.ts";
import type { PolicyDecision } from "../../policy/model/decision.ts";

type Answer = Pick<PolicyDecision, "allow" | "reasons">;

export function comparisonMembers({ changes, asked, summary }: PolicyComparison) {
  return {
    summary,
    asked,
    ways: changes.map(({ difference, foundBy, tenants, actions, example, before, after }) => ({
      kind: difference.kind,
      found_by: foundBy,
      tenants,
      actions,
      guidance: difference.guidance.map(memberName),
      before: answerMembers(before),
      after: answerMembers(after),
      example,
    })),
  };
}

export function recordedMembers({ compared, erased, notAskable, notLookedUp, changes }: RecordedComparison) {
  return {
    compared,
    erased,
    not_askable: notAskable,
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

export function comparisonText({ changes, asked, summary }: PolicyComparison): string {
  return [
    ...(summary.length === 0 ? ["the directories say the same"] : summary.flatMap(summaryLines)),
    `asked ${asked} questions: ${changes.length} ways in which they are decided differently`,
    ...changes.flatMap(changeLines),
  ].join("\n");
}

function summaryLines({ set, id, change, lines }: PolicySummary): readonly string[] {
  const what = set === undefined ? `manifest: ${id}` : `${set}/${id}`;
  return [`${what} is ${change}`, ...lines.map((line) => `  ${line}`)];
}

function changeLines({ difference, tenants, actions, before, after, example }: PolicyChange): readonly string[] {
  const { kind, guidance } = difference;
  const names = tenants.map((tenant) => (tenant === unnamedTenant ? "any other tenant" : tenant));
  return [
    `${kind}: ${actions.join(", ")} for ${listed(names)}`,
    ...(guidance.length === 0 ? [] : [`  other guidance: ${guidance.map(memberName).join(", ")}`]),
    `  was ${answerText(before)}`,
    `  is ${answerText(after)}`,
    `  example: ${JSON.stringify(example)}`,
  ];
}

/** As in annotations and answers. */
function memberName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Most names in one line. */
const maxListed = 5;

function listed(names: readonly string[]): string {
  const more = names.length - maxListed;
  return `${names.slice(0, maxListed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function answerText({ allow, reasons }: Answer): string {
  return `${allow ? "ALLOW" : "DENY"}, because of ${reasons.join(", ") || "no policy"}`;
}

export function recordedText({ compared, erased, notAskable, notLookedUp, changes }: RecordedComparison): string {
  const differing = changes.reduce((sum, { kind, count }) => sum + (kind === "reasons" ? 0 : count), 0);
  return [
    `recorded decisions: ${compared} compared, ${differing} come out differently`,
    ...(erased === 0 ? [] : [`  not compared: ${erased}, whose records are erased`]),
    ...(notAskable === 0 ? [] : [`  not compared: ${notAskable}, whose records do not say what was asked`]),
    ...(notLookedUp === 0 ? [] : [`  not compared: ${notLookedUp}, for which registered facts were not looked up`]),
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

/** Whether every request is decided alike. */
export function isProven(proof: Proof): boolean {
  return isDecided(proof) && proof.found.length === 0 && proof.proven === proof.statements;
}

/** Whether everything was proven or refuted. */
export function isDecided({ undecided }: Proof): boolean {
  return undecided.length === 0;
}

/** A proof that an example on both directories refutes is not trusted. */
export function heldTo(proof: Proof, { changes }: PolicyComparison): Proof {
  if (!isProven(proof) || changes.length === 0) return proof;
  return { ...proof, proven: 0, undecided: ["the prover says that all is equal, which the examples above refute"] };
}

/** The comparison with the solver's additional examples. */
export function withFound(compared: PolicyComparison, { found }: Proof): PolicyComparison {
  const isNew = ({ difference, actions }: PolicyChange) =>
    !compared.changes.some(
      (known) => known.difference.kind === difference.kind && actions.every((action) => known.actions.includes(action)),
    );
  return { ...compared, changes: [...compared.changes, ...found.filter(isNew)] };
}

export function proofMembers(proof: Proof) {
  const { solver, proven, statements, undecided } = proof;
  return { equal: isProven(proof), solver, proven, statements, undecided };
}

export function proofText(proof: Proof): string {
  const { solver, proven, statements, undecided } = proof;
  if (isProven(proof)) return `proven: equal for every request (${statements} statements; ${solver})`;
  return [
    `proven: ${proven} of ${statements} statements (${solver})`,
    ...(isDecided(proof) ? ["the others are refuted by the examples above"] : ["not decided:"]),
    ...undecided.map((reason) => `  ${reason}`),
  ].join("\n");
}
