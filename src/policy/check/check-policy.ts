/** Checks a policy by itself: syntax, annotations, id. */
import type { DetailedError, Effect, PolicyJson, PolicyToJsonAnswer, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import type { EntityUse } from "../evaluate/entity-request.ts";
import { programOf } from "../evaluate/program.ts";
import { type AnnotatedGuidance, type AnnotationRules, parseGuidance } from "../guidance/annotations.ts";
import { inputsOfObligations } from "../guidance/obligations.ts";
import { type PolicyAction, reservedIds } from "../model/decision.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { countsOnBehalfOf } from "./delegation.ts";
import { entitiesNamed, entityUse } from "./entity-use.ts";
import { foreignPrincipalIds, isUnconditional, namedActions, scopeActions } from "./policy-tree.ts";
import { inputsRead, joinInputs } from "./reads.ts";

/** What a policy's text says. Cedar's tree is not kept, because it is ten times the size of this. */
export interface PolicyContent {
  /** Value of `@id`. */
  readonly id: string;
  readonly effect: Effect;
  /** Actions that its scope allows. */
  readonly actions: ReadonlySet<PolicyAction>;
  /** Whether it decides every question about its actions. */
  readonly unconditional: boolean;
  /** Whether it counts in questions about another subject than the caller; see `delegation.ts`. */
  readonly countsOnBehalfOf: boolean;
  readonly description?: string;
  readonly guidance: AnnotatedGuidance;
  /** Names of the inputs that it reads, in conditions (see `reads.ts`) and for its obligations. */
  readonly reads: readonly string[];
  /** Actions and groups that it names; see `namedActions`. */
  readonly namedActions: readonly string[];
  /** Its use of the organisation's entities, and the entities that it names. */
  readonly entities: EntityUse & { readonly named: readonly TypeAndId[] };
  /** JSON of its `Program`. */
  readonly program: string;
}

/** A parsed policy with its location. Its id is unique in the set. */
export interface CheckedPolicy extends PolicyContent {
  /** File, and line of its first token. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

export type PolicyReading =
  /** The text does not parse as one policy. */
  | { readonly errors: readonly DetailedError[] }
  /** Problems have no location yet. A policy with problems may be absent. */
  | {
      readonly errors?: never;
      readonly policy?: PolicyContent;
      readonly problems: readonly Pick<PolicyProblem, "message" | "hint">[];
    };

const idPattern = /^[a-z0-9][a-z0-9._-]{0,127}$/;

/** Reads one policy from Cedar's parse of its text. */
export function readPolicy(
  parsed: PolicyToJsonAnswer,
  rules: AnnotationRules,
  catalogue: InputCatalogue,
): PolicyReading {
  if (parsed.type === "failure") return { errors: parsed.errors };
  const tree = parsed.json;
  // An annotation without a value is null, although its type excludes that.
  const annotations = (tree.annotations ?? {}) as Readonly<Record<string, string | null>>;
  const { id } = annotations;
  const { guidance, problems: misguided } = parseGuidance(tree.effect, annotations, rules, catalogue);
  const problems = [
    ...misguided.map((message) => ({ message })),
    ...foreignPrincipalIds(tree).map((message) => ({ message, hint: 'write Principal::"<tenant>/<principal>"' })),
  ];
  if (typeof id !== "string" || !idPattern.test(id) || reservedIds.includes(id)) {
    const message = typeof id === "string" ? `@id(${JSON.stringify(id)}) cannot be used` : "the policy has no @id";
    const hint = `lowercase letters, digits, and . _ -; not ${reservedIds.join(", ")}`;
    return { problems: [...problems, { message, hint }] };
  }
  return { policy: contentOf(id, tree, annotations.description, guidance, catalogue), problems };
}

function contentOf(
  id: string,
  tree: PolicyJson,
  description: string | null | undefined,
  guidance: AnnotatedGuidance,
  catalogue: InputCatalogue,
): PolicyContent {
  return {
    id,
    effect: tree.effect,
    actions: scopeActions(tree),
    unconditional: isUnconditional(tree),
    countsOnBehalfOf: countsOnBehalfOf(tree),
    ...(typeof description === "string" && { description }),
    guidance,
    reads: joinInputs([inputsRead(tree, catalogue), inputsOfObligations(guidance.obligations ?? [])], catalogue),
    namedActions: namedActions(tree),
    entities: { ...entityUse(tree, catalogue), named: entitiesNamed(tree) },
    program: JSON.stringify(programOf(tree)),
  };
}
