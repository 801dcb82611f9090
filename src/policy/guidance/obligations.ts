/**
 * Obligations: what a caller must do if it relies on a decision, by an id that it knows, with parameters.
 *
 *     @obligation("notify-owner; address = registered.attributes.owner; within_hours = 24; urgent = true")
 *
 *     obligation = id *( ";" name "=" value )
 *     value      = "'" text "'" / DQUOTE text DQUOTE / whole number / "true" / "false" / input
 *     input      = "principal." / "claimed." / "registered."  and the rest of its path: `claimed.attributes.region`
 *
 * Cedar allows an annotation once per policy, so further obligations are `@obligation_2` to `@obligation_8`. An input
 * must be text, a whole number, or a boolean; if one is absent when the policy decides, the decision is a denial.
 */
import type { Obligation } from "../model/decision.ts";
import type { Input, InputCatalogue, InputValue } from "../model/inputs.ts";

/** An obligation of a policy. A value is literal text, or read from the named input. */
export interface ObligationTemplate {
  readonly id: string;
  readonly parameters: Readonly<Record<string, string | { readonly input: string }>>;
}

/** Inputs that parameters may use. */
interface ObligationRules {
  readonly catalogue: InputCatalogue;
  /** Members of `registered` that may be disclosed to callers, such as `attributes.owner`. */
  readonly disclosable?: readonly string[];
}

const maximumPerPolicy = 8;
const maximumParameters = 16;
/** Most obligations of a decision, which is also the most that a caller can declare to understand. */
export const maximumObligations = 64;

export const obligationNames: readonly string[] = Array.from({ length: maximumPerPolicy }, (_, index) =>
  index === 0 ? "obligation" : `obligation_${index + 1}`,
);

const idPattern = /^[a-z][a-z0-9_.-]{0,127}$/;
/** Names of parameters and of declared attributes, and words of guidance. */
export const namePattern = /^[a-z][a-z0-9_]{0,63}$/;
const textPattern = /^[^\p{Cc}\p{Cs}]{0,1024}$/u;
/** One member, up to the next `;` outside quotes. */
const memberPattern = /(?:'[^']*'|"[^"]*"|[^;'"])*/y;

/** Parses the text of an annotation. Throws a RangeError that completes "must …". */
export function parseObligation(text: string, rules: ObligationRules): ObligationTemplate {
  const [id = "", ...members] = split(text);
  if (!idPattern.test(id)) throw new RangeError("begin with an id of lowercase letters, digits, and . _ -");
  if (members.length > maximumParameters) throw new RangeError(`have at most ${maximumParameters} parameters`);
  const parameters = new Map<string, ObligationTemplate["parameters"][string]>();
  for (const member of members) {
    const at = member.indexOf("=");
    const name = member.slice(0, Math.max(at, 0)).trim();
    if (!namePattern.test(name)) throw new RangeError("give each parameter as name = value, divided by semicolons");
    if (parameters.has(name)) throw new RangeError(`name ${name} once`);
    parameters.set(name, parseValue(name, member.slice(at + 1).trim(), rules));
  }
  return { id, parameters: Object.fromEntries([...parameters].sort(([a], [b]) => (a < b ? -1 : 1))) };
}

function split(text: string): readonly string[] {
  const members: string[] = [];
  for (let at = 0; at <= text.length; at++) {
    memberPattern.lastIndex = at;
    const member = memberPattern.exec(text)?.[0] ?? "";
    at += member.length;
    if (at < text.length && text[at] !== ";") throw new RangeError("close every quote");
    members.push(member.trim());
  }
  return members;
}

function parseValue(name: string, text: string, rules: ObligationRules): ObligationTemplate["parameters"][string] {
  const quoted = /^(?:'([^']*)'|"([^"]*)")$/.exec(text);
  if (quoted !== null) {
    const value = quoted[1] ?? quoted[2] ?? "";
    if (!textPattern.test(value)) throw new RangeError(`give ${name} one line of at most 1024 characters`);
    return value;
  }
  if (text === "true" || text === "false") return text;
  if (/^(?:0|-?[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(Number(text))) return text;
  return { input: inputNamed(name, text, rules) };
}

/** Name of the input at the path. */
function inputNamed(parameter: string, path: string, { catalogue, disclosable = [] }: ObligationRules): string {
  const found = scalarInput(path, catalogue);
  if (found === undefined) {
    const rule = "a quoted text, a whole number, true, false, or an input of one value such as claimed.resource.id";
    throw new RangeError(`give ${parameter} ${rule}`);
  }
  if (path.startsWith("registered.") && !disclosable.includes(path.slice("registered.".length))) {
    throw new RangeError(`take ${parameter} from what the manifest says is disclosable, which ${path} is not`);
  }
  return found;
}

/** Name of the scalar input at the path, without `context.`; undefined if there is none. */
export function scalarInput(path: string, catalogue: InputCatalogue): string | undefined {
  if (!/^(?:principal|claimed|registered)\.[^\s;'"]{1,256}$/.test(path)) return undefined;
  const full = path.startsWith("principal.") ? path : `context.${path}`;
  const holds = ({ kind, path: of }: Input): boolean =>
    kind === "tags" ? full.length > of.length + 1 && full.startsWith(`${of}.`) : of === full && scalarKinds.has(kind);
  const input = catalogue.inputs.find(holds);
  return input?.kind === "tags" ? `${input.name}${full.slice(input.path.length)}` : input?.name;
}

const scalarKinds: ReadonlySet<string> = new Set<Input["kind"]>(["text", "whole_number", "yes_no"]);

/** Names of the inputs that the obligations use. */
export function inputsOfObligations(obligations: readonly ObligationTemplate[]): readonly string[] {
  return obligations.flatMap(({ parameters }) =>
    Object.values(parameters).flatMap((from) => (typeof from === "string" ? [] : from.input)),
  );
}

/** The obligation with the values of a query; undefined if one of its inputs is absent. */
export function fillIn(
  { id, parameters }: ObligationTemplate,
  inputOf: (input: string) => InputValue,
): Obligation | undefined {
  const values = Object.entries(parameters).map(([name, from]) => {
    const value = typeof from === "string" ? from : inputOf(from.input);
    return [name, value === undefined ? undefined : String(value)] as const;
  });
  if (values.some(([, value]) => value === undefined)) return undefined;
  return { id, parameters: Object.fromEntries(values) as Record<string, string> };
}

/**
 * Removes duplicates of id and parameters. The same id with other parameters is another obligation, and the caller must
 * meet both or treat the decision as a denial; so another policy only adds obligations.
 */
export function mergeObligations(obligations: readonly Obligation[]): readonly Obligation[] {
  if (obligations.length === 0) return obligations;
  // Parameters are sorted by name, so that equal obligations have equal texts.
  const byText = new Map(obligations.map((each) => [JSON.stringify([each.id, each.parameters]), each] as const));
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, obligation]) => obligation);
}

/** One line, in policy syntax. */
export function formatObligation({ id, parameters }: ObligationTemplate): string {
  const members = Object.entries(parameters).map(
    ([name, from]) => `${name} = ${typeof from === "string" ? JSON.stringify(from) : from.input}`,
  );
  return [id, ...members].join("; ");
}

/**
 * OpenTDF's names of obligations. `drm.watermark` is `https://<namespace>/obl/drm/value/watermark`, and `audit` is
 * `https://<namespace>/obl/audit/value/required`. A name carries no parameters, so an obligation with parameters has
 * none, nor has one with another dot.
 */
export function obligationName({ id, parameters }: Obligation, namespace: string): string | undefined {
  const [name, value = "required", ...others] = id.split(".");
  if (others.length > 0 || Object.keys(parameters).length > 0) return undefined;
  return `https://${namespace}/obl/${name}/value/${value}`;
}

/** @param understood ids of obligations, or their names */
export function isUnderstood(obligation: Obligation, understood: readonly string[]): boolean {
  return understood.some((entry) => {
    const [, namespace] = /^https:\/\/([^/]+)\/obl\//.exec(entry) ?? [];
    return entry === obligation.id || (namespace !== undefined && entry === obligationName(obligation, namespace));
  });
}
