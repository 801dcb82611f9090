/**
 * A policy directory that decides like the peer's load-test policies, made from their rules: one Cedar policy for each
 * rule, if rules add up; and if role policies narrow what others permit, one for what a role may do with a kind of
 * resource in a scope. Features that those policies do not use throw: prohibitions in resource policies, and scopes
 * that require their parents' consent.
 */
import type { AttributeType } from "../src/base/caller.ts";
import type { Files } from "./policy-rules.ts";

/** Definitions of a policy's variables, by name. */
type Variables = Readonly<Record<string, string>>;

interface Condition {
  readonly match: { readonly expr?: string; readonly all?: { readonly of: readonly { readonly expr: string }[] } };
}

interface DerivedRoles {
  readonly name: string;
  readonly definitions: readonly {
    readonly name: string;
    readonly parentRoles: readonly string[];
    readonly condition?: Condition;
  }[];
}

interface ResourcePolicy {
  readonly resource: string;
  readonly version: string;
  readonly scope?: string;
  readonly scopePermissions?: string;
  readonly importDerivedRoles?: readonly string[];
  readonly rules: readonly {
    readonly actions: readonly string[];
    readonly effect: string;
    readonly roles?: readonly string[];
    readonly derivedRoles?: readonly string[];
    readonly condition?: Condition;
  }[];
}

interface PrincipalPolicy {
  readonly principal: string;
  readonly version: string;
  readonly scope?: string;
  readonly rules: readonly {
    readonly resource: string;
    readonly actions: readonly { readonly action: string; readonly effect: string; readonly condition?: Condition }[];
  }[];
}

interface RolePolicy {
  readonly role: string;
  readonly scope: string;
  readonly parentRoles: readonly string[];
  readonly rules: readonly {
    readonly resource: string;
    readonly allowActions: readonly string[];
    readonly condition?: Condition;
  }[];
}

/** One policy of the peer's. */
interface PeerPolicy {
  readonly variables?: Variables;
  readonly derivedRoles?: DerivedRoles;
  readonly resourcePolicy?: ResourcePolicy;
  readonly principalPolicy?: PrincipalPolicy;
  readonly rolePolicy?: RolePolicy;
}

/** The policy directory, and the number of policies in it. */
export function cedarFiles(policies: readonly unknown[]): { readonly files: Files; readonly count: number } {
  const translation = new Translation(policies as readonly PeerPolicy[]);
  const set = translation.policies();
  const attributes = Object.fromEntries(
    [...new Map([["roles", "set_of_text"], ...translation.conditions.attributes])].map(([name, type]) => [
      attributeName(name),
      { type, claim: ["peer", name] },
    ]),
  );
  // JSON is valid YAML.
  const manifest = { platform: "platform", tenants: { "*": "loadtest" }, caller_attributes: attributes };
  return {
    files: {
      "manifest.yaml": JSON.stringify(manifest),
      "platform/permit.cedar": '@id("permit")\npermit (principal, action, resource);\n',
      "loadtest/policies.cedar": set.join("\n"),
    },
    count: set.length,
  };
}

class Translation {
  readonly conditions = new ConditionTranslator();
  readonly #policies: readonly PeerPolicy[];
  readonly #derived = new Map<string, string>();
  /** Every scope that has a policy: a request in any other is denied. */
  readonly #scopes: readonly string[];
  readonly #cedar: string[] = [];

  constructor(policies: readonly PeerPolicy[]) {
    this.#policies = policies;
    const scoped = policies.flatMap(({ resourcePolicy, rolePolicy }) => resourcePolicy ?? rolePolicy ?? []);
    this.#scopes = [...new Set(scoped.map(({ scope = "" }) => scope))].sort();
  }

  policies(): readonly string[] {
    for (const { derivedRoles, variables } of this.#policies) {
      for (const { name, parentRoles, condition } of derivedRoles?.definitions ?? []) {
        this.#derived.set(
          `${derivedRoles?.name}/${name}`,
          [hasRole(parentRoles), ...this.#tests(condition, variables)].join(" && "),
        );
      }
    }
    const narrowed = this.#policies.flatMap(({ rolePolicy }) => rolePolicy ?? []);
    for (const { resourcePolicy, principalPolicy, variables } of this.#policies) {
      if (principalPolicy !== undefined) this.#addPrincipal(principalPolicy, variables);
      if (resourcePolicy === undefined) continue;
      const { scopePermissions, rules } = resourcePolicy;
      if (scopePermissions !== undefined || rules.some(({ effect }) => effect !== "EFFECT_ALLOW")) {
        throw new Error(`the policy of ${resourcePolicy.resource} does more than permit`);
      }
      if (narrowed.length === 0) this.#addResource(resourcePolicy, variables);
      else this.#addNarrowed(resourcePolicy, variables, narrowed);
    }
    return this.#cedar;
  }

  #add(effect: "permit" | "forbid", tests: readonly string[]): void {
    const id = `${effect}-${this.#cedar.length}`;
    this.#cedar.push(
      `@id("${id}")\n${effect} (principal, action == Action::"protect", resource)\nwhen { ${tests.join(" && ")} };`,
    );
  }

  #tests(condition: Condition | undefined, variables: Variables | undefined): readonly string[] {
    if (condition === undefined) return [];
    const { expr, all } = condition.match;
    const expressions = expr === undefined ? all?.of.map((each) => each.expr) : [expr];
    if (expressions === undefined) throw new Error(`no Cedar is known for ${JSON.stringify(condition)}`);
    return expressions.map((each) => this.conditions.condition(each, variables));
  }

  #addPrincipal({ principal, version, scope, rules }: PrincipalPolicy, variables: Variables | undefined): void {
    if (scope !== undefined) throw new Error(`the policy of ${principal} has a scope`);
    for (const { resource, actions } of rules) {
      for (const { action, effect, condition } of actions) {
        this.#add(effect === "EFFECT_DENY" ? "forbid" : "permit", [
          `principal.principal_id == "${principal}"`,
          ...about(resource, version),
          ...actionTests([action]),
          ...this.#tests(condition, variables),
        ]);
      }
    }
  }

  /** If all policies only permit, those of a scope's parents add to its own. */
  #addResource(policy: ResourcePolicy, variables: Variables | undefined): void {
    const { resource, version, scope = "", rules } = policy;
    const within = this.#scopes.filter((each) => chainOf(each).includes(scope));
    for (const { actions, roles = [], derivedRoles = [], condition } of rules) {
      this.#add("permit", [
        ...about(resource, version, within),
        ...actionTests(actions),
        anyOf([
          ...(roles.length === 0 ? [] : [hasRole(roles)]),
          ...derivedRoles.map((name) => this.#role(policy, name)),
        ]),
        ...this.#tests(condition, variables),
      ]);
    }
  }

  #role({ resource, importDerivedRoles = [] }: ResourcePolicy, name: string): string {
    const found = importDerivedRoles.flatMap((from) => this.#derived.get(`${from}/${name}`) ?? []);
    if (found.length !== 1) throw new Error(`the policy of ${resource} has no role ${name}, or two`);
    return found[0] as string;
  }

  /**
   * What a role may do in a scope: what a resource policy permits to it or to a role above it, if every policy of these
   * roles, in the scope and in those above it, has it too. If none of those of one scope mentions the resource, they
   * limit nothing, as at the peer.
   */
  #addNarrowed(policy: ResourcePolicy, variables: Variables | undefined, narrowing: readonly RolePolicy[]): void {
    const { resource, version, scope: resourceScope = "", rules } = policy;
    if (resourceScope !== "") throw new Error(`the policy of ${resource} has a scope, beside policies of roles`);
    const roles = new Set([...rules.flatMap((rule) => rule.roles ?? []), ...narrowing.map(({ role }) => role)]);
    for (const scope of this.#scopes) {
      const here = narrowing.filter((each) => chainOf(scope).includes(each.scope));
      for (const role of roles) {
        const above = rolesAbove(role, scope, here);
        const mentions = (within: string) => {
          const policies = here.filter((each) => each.scope === within && above.has(each.role));
          return policies.some((each) => each.rules.some((rule) => rule.resource === resource));
        };
        const limits = here.filter((each) => above.has(each.role) && mentions(each.scope));
        for (const rule of rules.filter((each) => each.roles?.some((name) => above.has(name)))) {
          const permitted = Map.groupBy(rule.actions, (action) => this.#limits(limits, resource, action));
          for (const [tests, actions] of permitted) {
            if (tests === undefined) continue;
            this.#add("permit", [
              ...about(resource, version, [scope]),
              ...actionTests(actions),
              hasRole([role]),
              ...this.#tests(rule.condition, variables),
              ...(tests === "" ? [] : [tests]),
            ]);
          }
        }
      }
    }
  }

  /** Conditions under which all policies have the action, as one text; undefined if one does not have it. */
  #limits(policies: readonly RolePolicy[], resource: string, action: string): string | undefined {
    const tests: string[] = [];
    for (const { rules } of policies) {
      const having = rules.filter((rule) => rule.resource === resource && rule.allowActions.includes(action));
      if (having.length === 0) return undefined;
      tests.push(...having.flatMap(({ condition }) => this.#tests(condition, undefined)));
    }
    return [...new Set(tests)].join(" && ");
  }
}

/** The role, and the roles above it by policies of the scope itself. */
function rolesAbove(role: string, scope: string, policies: readonly RolePolicy[]): ReadonlySet<string> {
  const found = new Set([role]);
  for (const name of found) {
    const own = policies.filter((policy) => policy.scope === scope && policy.role === name);
    for (const parent of own.flatMap(({ parentRoles }) => parentRoles)) found.add(parent);
  }
  return found;
}

/** The scope and those above it, up to the one without a name. */
function chainOf(scope: string): readonly string[] {
  const names = scope.split(".");
  return names.map((_, at) => names.slice(0, names.length - at).join(".")).concat(scope === "" ? [] : [""]);
}

/** @param scopes any, if absent */
function about(resource: string, version: string, scopes?: readonly string[]): readonly string[] {
  return [
    `context.claimed.resource.kind == "${resource}"`,
    ...isOneOf("version", [version]),
    ...(scopes === undefined ? [] : isOneOf("scope", scopes)),
  ];
}

function isOneOf(name: string, values: readonly string[]): readonly string[] {
  const { guards, text } = claimed(name);
  const [value, ...others] = values.map((each) => JSON.stringify(each));
  return [
    ...guards,
    others.length === 0 ? `${text} == ${value}` : `[${[value, ...others].join(", ")}].contains(${text})`,
  ];
}

/** A `*` matches anything; questions have at most one colon in their action names. */
function actionTests(actions: readonly string[]): readonly string[] {
  if (actions.includes("*")) return [];
  const { guards, text } = claimed("action");
  const patterns = actions.filter((action) => action.includes("*"));
  const names = actions.filter((action) => !action.includes("*"));
  const tests = patterns.map((pattern) => `${text} like ${JSON.stringify(pattern)}`);
  return [...guards, anyOf([...tests, ...(names.length === 0 ? [] : [isOneOf("action", names).at(-1) as string])])];
}

function hasRole(roles: readonly string[]): string {
  return `principal has roles && ${anyOf(roles.map((role) => `principal.roles.contains("${role}")`))}`;
}

function anyOf(tests: readonly string[]): string {
  return tests.length === 1 ? (tests[0] as string) : `(${tests.map((test) => `(${test})`).join(" || ")})`;
}

interface Term {
  /** Conditions that must hold before the text may be evaluated. */
  readonly guards: readonly string[];
  readonly text: string;
}

/**
 * Translates the conditions of those policies (CEL) to Cedar. Each is true exactly when the original is: if CEL fails
 * because an attribute is absent, a rule of the peer's does not apply, and here `hasTag` and `has` have the same
 * effect. Any form that those policies do not use throws.
 *
 * Attributes of a resource are claimed attributes, whose values are strings; those of a principal come from its token.
 */
class ConditionTranslator {
  /** Principal attributes that conditions read, by their name at the peer. */
  readonly attributes = new Map<string, AttributeType>();

  /** The Cedar condition. */
  condition(cel: string, variables: Variables = {}): string {
    const { guards, text } = this.#test(bare(cel), variables);
    return [...new Set([...guards, text])].join(" && ");
  }

  #test(cel: string, variables: Variables): Term {
    const variable = variableOf(cel, variables);
    if (variable !== undefined) return this.#test(variable, variables);
    const [, item, claim] = /^("[^"]*") in request\.aux_data\.jwt\.(\w+)$/.exec(cel) ?? [];
    if (item !== undefined) {
      const { guards, text } = this.#attribute(`jwt.${claim}`, "set_of_text");
      return { guards, text: `${text}.contains(${item})` };
    }
    const [, address, range] = /^(\S+)\.inIPAddrRange\("([^"]*)"\)$/.exec(cel) ?? [];
    if (address !== undefined) {
      const { guards, text } = this.#operand(address, variables);
      return { guards, text: `${text} like "${octetsOf(range as string)}.*"` };
    }
    const [, left, operator, right] = /^(.+?) (==|>=) (.+)$/.exec(cel) ?? [];
    if (left === undefined || right === undefined) throw new Error(`no Cedar is known for the condition ${cel}`);
    if (operator === ">=") return this.#compare(left, right, variables);
    const choice = /^(.+?) \? (\S+) : (\S+)$/.exec(bare(variableOf(right, variables) ?? right));
    if (choice === null) return this.#equal(left, right, variables);
    const [test, one, other] = [
      this.#test(choice[1] as string, variables),
      ...[choice[2], choice[3]].map((value) => this.#equal(left, value as string, variables)),
    ] as [Term, Term, Term];
    const guards = [...test.guards, ...one.guards, ...other.guards];
    return { guards, text: `(if ${test.text} then ${one.text} else ${other.text})` };
  }

  #equal(left: string, right: string, variables: Variables): Term {
    const [a, b] = [this.#operand(left, variables), this.#operand(right, variables)];
    return { guards: [...a.guards, ...b.guards], text: `${a.text} == ${b.text}` };
  }

  #compare(left: string, right: string, variables: Variables): Term {
    if (!/^\d+$/.test(right)) throw new Error(`no Cedar is known for the comparison with ${right}`);
    const { guards, text } = this.#operand(left, variables, "whole_number");
    return { guards, text: `${text} >= ${right}` };
  }

  #operand(cel: string, variables: Variables, type: AttributeType = "text"): Term {
    const variable = variableOf(cel, variables);
    if (variable !== undefined) return this.#operand(variable, variables, type);
    if (/^"[^"\\]*"$/.test(cel)) return { guards: [], text: cel };
    // Claimed attributes are strings.
    if (cel === "true" || cel === "false") return { guards: [], text: JSON.stringify(cel) };
    if (cel === "P.id") return { guards: [], text: "principal.principal_id" };
    const [, of, name] = /^(R|P|request\.resource|request\.principal)\.attr\.(\w+)$/.exec(cel) ?? [];
    if (name === undefined) throw new Error(`no Cedar is known for ${cel}`);
    return of === "R" || of === "request.resource" ? claimed(name) : this.#attribute(name, type);
  }

  #attribute(name: string, type: AttributeType): Term {
    if ((this.attributes.get(name) ?? type) !== type) throw new Error(`${name} is read as two types`);
    this.attributes.set(name, type);
    const member = attributeName(name);
    return { guards: [`principal has ${member}`], text: `principal.${member}` };
  }
}

/** The name under which a policy directory declares an attribute. */
function attributeName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).replaceAll(".", "_");
}

/** A claimed attribute. */
function claimed(name: string): Term {
  const key = JSON.stringify(name);
  return {
    guards: [`context.claimed.attributes.hasTag(${key})`],
    text: `context.claimed.attributes.getTag(${key})`,
  };
}

function variableOf(cel: string, variables: Variables): string | undefined {
  const [, name] = /^(?:V|variables)\.(\w+)$/.exec(cel) ?? [];
  if (name === undefined) return undefined;
  const definition = variables[name];
  if (definition === undefined) throw new Error(`there is no variable ${name}`);
  return bare(definition);
}

/** Without the outer parentheses, of which the policies have at most one pair. */
function bare(cel: string): string {
  const text = cel.trim();
  return text.startsWith("(") && text.endsWith(")") ? text.slice(1, -1) : text;
}

/** The prefix of every IPv4 address in the range. */
function octetsOf(range: string): string {
  const [, octets, bits] = /^(\d+\.\d+\.\d+)\.\d+\/(8|16|24)$/.exec(range) ?? [];
  if (octets === undefined) throw new Error(`no Cedar is known for the range ${range}`);
  return octets
    .split(".")
    .slice(0, Number(bits) / 8)
    .join(".");
}
