/**
 * Conditions of the peer's load-test policies (CEL) in Cedar. Each is true exactly where the other is: where CEL fails, for
 * an attribute that is not there, a rule of the peer's does not apply, and here `hasTag` and `has` say the same. What is not
 * among the few forms that those policies use throws.
 *
 * Attributes of a resource are claimed attributes, whose values are texts; those of a principal are what its token says.
 */
import type { AttributeType } from "../src/base/caller-attributes.ts";

/** Definitions of a policy's variables, by name. */
export type Variables = Readonly<Record<string, string>>;

interface Term {
  /** What must hold before the text may be evaluated. */
  readonly guards: readonly string[];
  readonly text: string;
}

export class ConditionTranslator {
  /** Attributes of principals that conditions read, by their name at the peer. */
  readonly attributes = new Map<string, AttributeType>();

  /** A condition of Cedar's. */
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
    // Claimed attributes are texts.
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

/** The name that a policy directory declares an attribute by. */
export function attributeName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).replaceAll(".", "_");
}

/** A claimed attribute. */
export function claimed(name: string): Term {
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

/** Without the brackets around all of it, of which the policies have at most one pair. */
function bare(cel: string): string {
  const text = cel.trim();
  return text.startsWith("(") && text.endsWith(")") ? text.slice(1, -1) : text;
}

/** What the text of every IPv4 address in the range begins with. */
function octetsOf(range: string): string {
  const [, octets, bits] = /^(\d+\.\d+\.\d+)\.\d+\/(8|16|24)$/.exec(range) ?? [];
  if (octets === undefined) throw new Error(`no Cedar is known for the range ${range}`);
  return octets
    .split(".")
    .slice(0, Number(bits) / 8)
    .join(".");
}
