/**
 * Which inputs a policy reads, from its syntax tree. An overestimate: any form that is not recognised counts as reading
 * everything, because the decision cache is exact only if no deciding input is omitted.
 */
import type { EntityUidJson, PolicyJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { parseTenantId } from "../../base/ids.ts";
import type { EntityUse } from "../evaluate/entity-request.ts";
import type { PolicyAction } from "../model/decision.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import { actionGroups, policyActions } from "../model/schema.ts";

/** Names of the inputs (see `inputs.ts`) that the policy reads, sorted. */
export function inputsRead(
  { principal, conditions }: Pick<PolicyJson, "principal" | "conditions">,
  catalogue: InputCatalogue,
): readonly string[] {
  const reads = new Reads(catalogue);
  if (principal.op !== "All" && !(principal.op === "is" && principal.in === undefined)) reads.identity();
  for (const { body } of conditions) reads.expression(body);
  return joinInputs([[...reads.names]], catalogue);
}

/** Names in any of the lists, sorted. Single tags are removed if all tags are named. */
export function joinInputs(lists: readonly (readonly string[])[], catalogue: InputCatalogue): readonly string[] {
  const names = new Set(lists.flat());
  const isNamedAlready = (name: string): boolean => names.has(catalogue.tagOf(name)?.of.name ?? "");
  return [...names].filter((name) => !isNamedAlready(name)).sort();
}

type Node = Readonly<Record<string, unknown>>;

/** Names that are read, collected by walking the syntax tree. */
class Reads {
  readonly names = new Set<string>();
  readonly #catalogue: InputCatalogue;

  constructor(catalogue: InputCatalogue) {
    this.#catalogue = catalogue;
  }

  expression(expression: unknown): void {
    const path = pathOf(expression);
    const [operator = "", operand] = Object.entries(expression as Node)[0] ?? [];
    if (path !== undefined) this.#path(path);
    else if (operator === "has") this.#presence(operand as Node);
    else if (operator === "hasTag" || operator === "getTag") this.#tag(operand as Node);
    else {
      const operands = namesLabelSet(operator, operand) ? undefined : operandsOf(operator, operand);
      if (operands === undefined) this.#everything();
      else for (const child of operands) this.expression(child);
    }
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

  #presence(node: Node): void {
    const path = pathOf(node.left);
    if (path === undefined) {
      this.#everything();
      return;
    }
    // Cedar also accepts a whole path in one `has`; it implies the presence of each record on it.
    const names = [node.attr as string | readonly string[]].flat();
    const record = this.#catalogue.recordAt([...path, ...names].join("."));
    if (record !== undefined) this.names.add(record);
    else this.#path([...path, ...names]);
  }

  #tag(node: Node): void {
    const key = (node.right as { readonly Value?: unknown }).Value;
    const path = pathOf(node.left)?.join(".");
    const tags = this.#catalogue.tags.find((input) => input.path === path);
    const isOfEntity = path !== undefined && this.#catalogue.referencesAt(path).some((it) => path.startsWith(it.path));
    if (isOfEntity) {
      this.expression(node.left);
      this.expression(node.right);
    } else if (tags === undefined) this.#everything();
    else if (typeof key === "string") this.names.add(`${tags.name}.${key}`);
    else {
      this.names.add(tags.name);
      this.expression(node.right);
    }
  }

  #everything(): void {
    for (const name of this.#catalogue.names) this.names.add(name);
  }
}

const operators: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    [
      ...["==", "!=", "in", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*"],
      ...["contains", "containsAll", "containsAny"],
    ].map((operator) => [operator, ["left", "right"]]),
  ),
  "!": ["arg"],
  neg: ["arg"],
  isEmpty: ["arg"],
  like: ["left"],
  is: ["left", "in"],
  "if-then-else": ["if", "then", "else"],
};

/** Whether it is a set of labels by name; such a set is in what its labels are in. */
function namesLabelSet(operator: string, operand: unknown): boolean {
  return operator === "Value" && JSON.stringify(operand).includes('"type":"LabelSet"');
}

/** Operands of an operator's expression; undefined for an unknown operator. */
function operandsOf(operator: string, operand: unknown): readonly unknown[] | undefined {
  if (operator === "Value") return [];
  if (Array.isArray(operand)) return operand; // a set, or the arguments of a function such as decimal(…)
  if (operator === "Record") return Object.values(operand as Node);
  // Not among them: a member of something other than a plain path, such as `(if … then … else …).scopes`.
  const names = Object.hasOwn(operators, operator) ? operators[operator] : undefined;
  return names?.flatMap((name) => (operand as Node)[name] ?? []);
}

/** `principal.scopes` and the like as `["principal", "scopes"]`; undefined if the expression is not such a chain. */
export function pathOf(expression: unknown): readonly string[] | undefined {
  const node = expression as {
    readonly Var?: string;
    readonly "."?: { readonly left: unknown; readonly attr: string };
  };
  if (node.Var !== undefined) return [node.Var];
  if (node["."] === undefined) return undefined;
  const left = pathOf(node["."].left);
  return left === undefined ? undefined : [...left, node["."].attr];
}

// Other questions about a policy's syntax tree.

/** Actions that the scope of the policy allows; conditions may narrow them further. */
export function scopeActions({ action }: PolicyJson): ReadonlySet<PolicyAction> {
  if (action.op === "All") return new Set(policyActions);
  const entities = "entities" in action ? action.entities : "entity" in action ? [action.entity] : [];
  const names = entities.map((entity) => uidOf(entity).id);
  return new Set(policyActions.filter((name) => names.includes(name) || names.some((group) => inGroup(name, group))));
}

function inGroup(action: PolicyAction, group: string): boolean {
  return Object.hasOwn(actionGroups, group) && (actionGroups[group] ?? []).includes(action);
}

/** Whether the policy applies to every question about its actions. */
export function isUnconditional({ principal, resource, conditions }: PolicyJson): boolean {
  const open = (op: string, narrowed: boolean): boolean => op === "All" || (op === "is" && !narrowed);
  return (
    conditions.length === 0 &&
    open(principal.op, "in" in principal) &&
    // The resource has one id, so equality with it narrows nothing.
    (resource.op === "==" || open(resource.op, "in" in resource))
  );
}

/**
 * Actions and groups that the policy may test with `in`: groups anywhere, and actions in its conditions. Sorted; every
 * name counts, whether it is tested or not.
 */
export function namedActions({ action, conditions }: PolicyJson): readonly string[] {
  const named = new Set(entityIds("Action", conditions));
  for (const id of entityIds("Action", action)) if (Object.hasOwn(actionGroups, id)) named.add(id);
  return [...named].sort();
}

/** A message for each principal that the policy names by an impossible id: it would never match. */
export function foreignPrincipalIds(policy: PolicyJson): readonly string[] {
  const bad = [...entityIds("Principal", [policy.principal, policy.conditions])].filter((id) => !isPrincipalId(id));
  return bad.map((id) => `no principal has the id ${JSON.stringify(id)}`);
}

/** Ids of the type's entities in a part of the tree, in order of appearance. */
export function entityIds(ofType: string, part: unknown): ReadonlySet<string> {
  return new Set(uidsIn(part).flatMap(({ type, id }) => (type === ofType ? [id] : [])));
}

function isPrincipalId(id: string): boolean {
  const slash = id.indexOf("/");
  return slash > 0 && slash < id.length - 1 && parseTenantId(id.slice(0, slash)) !== undefined;
}

function uidOf(entity: EntityUidJson): TypeAndId {
  return "__entity" in entity ? entity.__entity : entity;
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
export function entitiesNamed({ principal, resource, conditions }: PolicyJson): readonly TypeAndId[] {
  return uidsIn([principal, resource, conditions]).filter(isOperators);
}

export function entityUse({ conditions }: Pick<PolicyJson, "conditions">, catalogue: InputCatalogue): EntityUse {
  const walk = new Walk(catalogue);
  const steps = Math.max(0, ...conditions.map(({ body }) => walk.steps(body)));
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
  steps(node: unknown): number {
    if (typeof node !== "object" || node === null) return 0;
    const path = pathOf(node);
    if (path !== undefined) return this.#path(path);
    const [operator = "", operand] = Object.entries(node)[0] ?? [];
    if (operator === "Value") return this.#value(operand);
    const { left, right, attr } = operand as Node;
    if (operator === "has") {
      const whole = pathOf(left);
      const names = [attr as string | readonly string[]].flat();
      return whole === undefined ? this.steps(left) + names.length : this.#path([...whole, ...names]);
    }
    if (operator === ".") return this.steps(left) + 1;
    if (operator === "getTag") return Math.max(this.steps(left) + 1, this.steps(right));
    if (comparing.includes(operator)) {
      // An entity that is compared by name is not read otherwise, but on the left of `in` its parents are.
      const isLeftNamed = operator === "in" ? isVariable(left) : isNamed(left);
      return Math.max(isLeftNamed ? 0 : this.steps(left), isNamed(right) ? 0 : this.steps(right));
    }
    return Math.max(0, ...Object.values(operand as Node).map((child) => this.#within(child)));
  }

  /** An expression, or a list of them, as operands of functions are. */
  #within(child: unknown): number {
    return Array.isArray(child) ? Math.max(0, ...child.map((item) => this.steps(item))) : this.steps(child);
  }

  #path(path: readonly string[]): number {
    const joined = path.join(".");
    const found = this.#catalogue.referencesAt(joined);
    for (const reference of found) this.references.add(reference.path);
    const through = found.find((reference) => joined.startsWith(`${reference.path}.`));
    return through === undefined ? 0 : path.length - through.path.split(".").length;
  }

  #value(value: unknown): number {
    const uids = uidsIn(value);
    this.roots.push(...uids.filter(isOperators));
    if (uids.some(({ type }) => ourTypes.includes(type))) {
      for (const { path } of this.#catalogue.references) this.references.add(path);
    }
    return 0;
  }
}

const comparing: readonly string[] = ["in", "==", "!=", "contains", "containsAll", "containsAny"];

/** Types of the service whose entities a policy can name, and through which it can read values of a request. */
const ourTypes: readonly string[] = ["LabelSet", "Principal"];

/** Whether the expression is an entity by name, another constant, or a set of them. */
function isNamed(expression: unknown): boolean {
  const { Value: value, Set: items } = expression as Node;
  return value !== undefined || isVariable(expression) || (Array.isArray(items) && items.every(isNamed));
}

function isVariable(expression: unknown): boolean {
  return (expression as Node).Var !== undefined;
}

function isOperators({ type }: TypeAndId): boolean {
  return type.includes("::");
}

function uidsIn(node: unknown): readonly TypeAndId[] {
  if (typeof node !== "object" || node === null) return [];
  const { type, id } = node as Partial<TypeAndId>;
  const within = Object.values(node).flatMap(uidsIn);
  return typeof type === "string" && typeof id === "string" ? [{ type, id }, ...within] : within;
}
