/** What was proven of two policy directories, for machines and for people. */
import type { PolicyChange, PolicyComparison } from "../../policy/diff/compare.ts";
import type { Proof } from "../../policy/prove/prove.ts";

/** Whether every request is decided alike. */
export function isProven(proof: Proof): boolean {
  return isDecided(proof) && proof.found.length === 0 && proof.proven === proof.statements;
}

/** Whether everything was proven or refuted. */
export function isDecided({ undecided }: Proof): boolean {
  return undecided.length === 0;
}

/** Nothing of a proof that an example refutes, which was put to both directories, is believed. */
export function heldTo(proof: Proof, { changes }: PolicyComparison): Proof {
  if (!isProven(proof) || changes.length === 0) return proof;
  return { ...proof, proven: 0, undecided: ["the prover says that all is equal, which the examples above refute"] };
}

/** The comparison with the solver's examples of what the search found no example of. */
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
