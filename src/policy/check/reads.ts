/**
 * Which inputs a policy reads, from its syntax tree. An overestimate: any form that is not recognised counts as reading
 * everything, because the decision cache is exact only if no deciding input is omitted.
 */
import type { PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { InputCatalogue } from "../model/inputs.ts";

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
