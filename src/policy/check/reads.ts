/**
 * Which inputs a policy reads. An overestimate: any form that is not recognised counts as reading everything, because
 * the decision cache is exact only if no deciding input is omitted.
 */
import type { TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import type { EntityUse } from "../evaluate/entity-request.ts";
import { type Expression, isPath, operandsOf, type Program } from "../evaluate/program.ts";
import type { PolicyAction } from "../model/decision.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import { actionGroups, policyActions } from "../model/schema.ts";

/** Names of the inputs (see `inputs.ts`) that the policy reads, sorted. */
export function inputsRead(
  { scope, conditions }: Pick<Program, "scope" | "conditions">,
  catalogue: InputCatalogue,
): readonly string[] {
  const reads = new Reads(catalogue);
  if (scope.some(([operator, of]) => operator !== "is" && isPath(of as Expression, "principal"))) reads.identity();
  for (const condition of conditions) reads.expression(condition);
  return joinInputs([[...reads.names]], catalogue);
}

/** Names in any of the lists, sorted. Single tags are removed if all tags are named. */
export function joinInputs(lists: readonly (readonly string[])[], catalogue: InputCatalogue): readonly string[] {
  const names = new Set(lists.flat());
  const isNamedAlready = (name: string): boolean => names.has(catalogue.tagOf(name)?.of.name ?? "");
  return [...names].filter((name) => !isNamedAlready(name)).sort();
}

/** Names that are read, collected from expressions. */
class Reads {
  readonly names = new Set<string>();
  readonly #catalogue: InputCatalogue;

  constructor(catalogue: InputCatalogue) {
    this.#catalogue = catalogue;
  }

  expression(expression: Expression): void {
    const [operator] = expression;
    if (operator === "path") this.#path(expression.slice(1));
    else if (operator === "has") this.#presence(expression[1], expression.slice(2) as string[]);
    else if (operator === "hasTag" || operator === "getTag") this.#tag(expression[1], expression[2]);
    // Not read by its parts: a member of something other than a plain path, such as `(if … then … else …).scopes`; and
    // a set of labels by name, which is in what its labels are in.
    else if (operator === "." || operator === "unknown" || isLabelSet(expression)) this.#everything();
    else for (const operand of operandsOf(expression)) this.expression(operand);
  }

  /** Principals are compared by id alone. */
  identity(): void {
    this.names.add("caller.tenant_id").add("caller.principal_id");
  }

  #path(path: readonly string[]): void {
    const joined = path.join(".");
    if (joined === "resource" || joined === "action") return; // the one is constant, the other is part of the key
    const found = this.#catalogue.namesAt(joined);
    if (this.#mayPassPrincipal(joined)) this.#everything();
    else if (joined === "principal") this.identity();
    else if (found.length === 0) this.#everything();
    else for (const name of found) this.names.add(name);
  }

  /** Whether the path goes through a member of an entity, which may be the caller, to a member of that. */
  #mayPassPrincipal(path: string): boolean {
    const { refersToPrincipals, references } = this.#catalogue;
    const isBeyond = (start: string) => path.startsWith(`${start}.`) && path.slice(start.length + 1).includes(".");
    return refersToPrincipals && references.some((it) => isBeyond(it.path));
  }

  #presence(of: Expression, names: readonly string[]): void {
    // Cedar also accepts a whole path in one `has`; it implies the presence of each record on it.
    const path = [...of.slice(1), ...names] as readonly string[];
    const input = this.#catalogue.inputAt(path.join("."));
    if (of[0] !== "path") this.#everything();
    else if (input?.kind === "record") this.names.add(input.name);
    else this.#path(path);
  }

  #tag(of: Expression, key: Expression): void {
    const path = pathOf(of);
    const tags = this.#catalogue.inputAt(path);
    const isOfEntity = path !== undefined && this.#catalogue.referencesAt(path).some((it) => path.startsWith(it.path));
    if (isOfEntity) {
      this.expression(of);
      this.expression(key);
    } else if (tags?.kind !== "tags") this.#everything();
    else if (key[0] === "value" && typeof key[1] === "string") this.names.add(`${tags.name}.${key[1]}`);
    else {
      this.names.add(tags.name);
      this.expression(key);
    }
  }

  #everything(): void {
    for (const name of this.#catalogue.names) this.names.add(name);
  }
}

function isLabelSet([operator, type]: Expression): boolean {
  return operator === "entity" && type === "LabelSet";
}

/** `principal.scopes` and the like; undefined if the expression is not such a chain. */
export function pathOf(expression: Expression): string | undefined {
  return expression[0] === "path" ? expression.slice(1).join(".") : undefined;
}

// Other questions about a policy.

/** Actions that the scope of the policy allows; conditions may narrow them further. */
export function scopeActions({ scope }: Pick<Program, "scope">): ReadonlySet<PolicyAction> {
  const narrowing = scope.filter(([, of]) => isPath(of as Expression, "action"));
  if (narrowing.length === 0) return new Set(policyActions);
  const names = entityIds("Action", narrowing);
  return new Set(policyActions.filter((name) => names.has(name) || [...names].some((group) => inGroup(name, group))));
}

function inGroup(action: PolicyAction, group: string): boolean {
  return Object.hasOwn(actionGroups, group) && (actionGroups[group] ?? []).includes(action);
}

/** Whether the policy applies to every question about its actions. */
export function isUnconditional({ scope, conditions }: Program): boolean {
  // The resource has one id, so equality with it narrows nothing.
  const isOpen = ([operator, of]: Expression) =>
    operator === "is" ||
    isPath(of as Expression, "action") ||
    (operator === "==" && isPath(of as Expression, "resource"));
  return conditions.length === 0 && scope.every(isOpen);
}

/** A message for each principal that the policy names by an impossible id: it would never match. */
export function foreignPrincipalIds({ scope, conditions }: Program): readonly string[] {
  const bad = [...entityIds("Principal", [...scope, ...conditions])].filter((id) => !isPrincipalId(id));
  return bad.map((id) => `no principal has the id ${JSON.stringify(id)}`);
}

/** Ids of the type's entities in the expressions, in order of appearance. */
export function entityIds(ofType: string, expressions: readonly Expression[]): ReadonlySet<string> {
  return new Set(expressions.flatMap(uidsIn).flatMap(({ type, id }) => (type === ofType ? [id] : [])));
}

/** Whether a principal can have the id: `tenant/principal`. */
export function isPrincipalId(id: string): boolean {
  const slash = id.indexOf("/");
  return (
    slash > 0 && parseTenantId(id.slice(0, slash)) !== undefined && parsePrincipalId(id.slice(slash + 1)) !== undefined
  );
}

// A policy's use of the organisation's entities. An overestimate: every value that a policy has
// came from a path that it reads or from an entity that it names, and each member or tag that it reads leads at most
// one entity further.

/** Combined use of several policies. */
export function joinUses(uses: readonly EntityUse[]): EntityUse {
  const roots = new Map(uses.flatMap((use) => use.roots).map((uid) => [`${uid.type} ${uid.id}`, uid]));
  return {
    references: [...new Set(uses.flatMap((use) => use.references))],
    roots: [...roots.values()],
    steps: Math.max(0, ...uses.map(({ steps }) => steps)),
  };
}

/** Every entity of the operator's types that the policy names. */
export function entitiesNamed({ scope, conditions }: Program): readonly TypeAndId[] {
  return [...scope, ...conditions].flatMap(uidsIn).filter(isOperators);
}

export function entityUse({ conditions }: Pick<Program, "conditions">, catalogue: InputCatalogue): EntityUse {
  const walk = new Walk(catalogue);
  const steps = Math.max(0, ...conditions.map((condition) => walk.steps(condition)));
  return joinUses([{ references: [...walk.references], roots: walk.roots, steps }]);
}

class Walk {
  readonly references = new Set<string>();
  readonly roots: TypeAndId[] = [];
  readonly #catalogue: InputCatalogue;

  constructor(catalogue: InputCatalogue) {
    this.#catalogue = catalogue;
  }

  /** Nested reads of members and tags, beyond paths that lead to no entity. */
  steps(expression: Expression): number {
    switch (expression[0]) {
      case "path":
        return this.#path(expression.slice(1));
      case "entity":
        return this.#entity({ type: expression[1], id: expression[2] });
      case "has": {
        const [, of, ...names] = expression;
        return of[0] === "path" ? this.#path([...of.slice(1), ...names]) : this.steps(of) + names.length;
      }
      case ".":
        return this.steps(expression[1]) + 1;
      case "getTag":
        return Math.max(this.steps(expression[1]) + 1, this.steps(expression[2]));
      case "in":
      case "==":
      case "!=":
      case "contains":
      case "containsAll":
      case "containsAny": {
        // An entity that is compared by name is not read otherwise, but on the left of `in` its parents are.
        const [operator, left, right] = expression;
        const isLeftNamed = operator === "in" ? isVariable(left) : isNamed(left);
        return Math.max(isLeftNamed ? 0 : this.steps(left), isNamed(right) ? 0 : this.steps(right));
      }
      default:
        return Math.max(0, ...operandsOf(expression).map((operand) => this.steps(operand)));
    }
  }

  #path(path: readonly string[]): number {
    const joined = path.join(".");
    const found = this.#catalogue.referencesAt(joined);
    for (const reference of found) this.references.add(reference.path);
    const through = found.find((reference) => joined.startsWith(`${reference.path}.`));
    return through === undefined ? 0 : path.length - through.path.split(".").length;
  }

  #entity(uid: TypeAndId): number {
    if (isOperators(uid)) this.roots.push(uid);
    if (ourTypes.includes(uid.type)) for (const { path } of this.#catalogue.references) this.references.add(path);
    return 0;
  }
}

/** Types of the service whose entities a policy can name, and through which it can read values of a request. */
const ourTypes: readonly string[] = ["LabelSet", "Principal"];

/** Whether the expression is an entity by name, another constant, or a set of them. */
function isNamed(expression: Expression): boolean {
  if (expression[0] === "set") return expression[1].every(isNamed);
  return expression[0] === "entity" || expression[0] === "value" || isVariable(expression);
}

function isVariable(expression: Expression): boolean {
  return expression[0] === "path" && expression.length === 2;
}

function isOperators({ type }: TypeAndId): boolean {
  return type.includes("::");
}

function uidsIn(expression: Expression): readonly TypeAndId[] {
  return expression[0] === "entity"
    ? [{ type: expression[1], id: expression[2] }]
    : operandsOf(expression).flatMap(uidsIn);
}
