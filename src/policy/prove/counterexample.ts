/** The question that a counterexample of the solver is, as operators write it, with nothing in it that makes no difference. */
import { isDeepStrictEqual } from "node:util";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import type { InputCatalogue } from "../engine/inputs.ts";
import { place, type WrittenQuestion } from "../samples/question.ts";
import { asObject, type Counterexample } from "./wire.ts";

type Json = Readonly<Record<string, unknown>>;

/** Undefined where it is of another form than the schema has. Entities that were made up are left out. */
export function questionIn(
  { principal, context, entities }: Counterexample,
  action: string,
  usualTenant: string,
  catalogue: InputCatalogue,
): WrittenQuestion | undefined {
  const known = new Map(
    entities.flatMap((entity) => {
      const { uid, attrs, tags } = asObject(entity) ?? {};
      return uid === undefined
        ? []
        : [[keyOf(uid), { attrs: asObject(attrs) ?? {}, tags: asObject(tags) ?? {} }] as const];
    }),
  );
  const caller = known.get(keyOf(principal))?.attrs;
  const asked = asObject(context);
  if (caller === undefined || asked === undefined) return undefined;
  const question = { tenant: usualTenant, principal: {}, action, claimed: {} };
  for (const { name, kind, path } of catalogue.inputs) {
    const value = valueAt({ principal: caller, context: asked }, path);
    if (value === undefined || kind === "record") continue;
    place(question, name, kind === "tags" ? (known.get(keyOf(value))?.tags ?? {}) : value);
  }
  // The solver knows no rules for ids.
  const { principal_id: id } = question.principal as { readonly principal_id?: unknown };
  if (typeof id !== "string" || parsePrincipalId(id) === undefined) place(question, "caller.principal_id", usualText);
  if (typeof question.tenant !== "string" || parseTenantId(question.tenant) === undefined)
    question.tenant = usualTenant;
  return question;
}

/** `{ "type", "id" }`, or the same as the one member `__entity`. */
function keyOf(uid: unknown): string {
  const { __entity, type, id } = (asObject(uid) ?? {}) as Json;
  return __entity === undefined ? JSON.stringify([type, id]) : keyOf(__entity);
}

function valueAt(from: Json, path: string): unknown {
  let at: unknown = from;
  for (const name of path.split(".")) {
    const record = asObject(at);
    if (record === undefined || !Object.hasOwn(record, name)) return undefined;
    at = record[name];
  }
  return at;
}

const usualText = "anything-else";
/** Members that a question always has. */
const needed: ReadonlySet<string> = new Set(["tenant", "principal", "action", "claimed"]);

/** Takes out of the question, part by part, what `holds` does without. */
export function simplified(question: WrittenQuestion, holds: (question: WrittenQuestion) => boolean): WrittenQuestion {
  let simplest = question;
  for (const path of pathsIn(question, [])) {
    if (path.length === 1 && needed.has(path[0] as string)) continue;
    for (const value of simplerThan(path, valueIn(simplest, path))) {
      const simpler = changed(simplest, path, value) as WrittenQuestion;
      if (isDeepStrictEqual(simpler, simplest) || !holds(simpler)) continue;
      simplest = simpler;
      break;
    }
  }
  return simplest;
}

/** The outer ones first. */
function pathsIn(value: unknown, path: readonly string[]): readonly (readonly string[])[] {
  const record = Array.isArray(value) ? {} : (asObject(value) ?? {});
  return Object.entries(record).flatMap(([name, member]) => [[...path, name], ...pathsIn(member, [...path, name])]);
}

function valueIn(from: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, name) => asObject(at)?.[name], from);
}

/** The simplest first: absent, what nobody speaks of, and of a set a part. */
function simplerThan([first]: readonly string[], value: unknown): readonly unknown[] {
  if (value === undefined || first === undefined) return [];
  if (typeof value === "string") return [undefined, usualText];
  if (typeof value === "number") return [undefined, 0];
  if (Array.isArray(value)) return [undefined, [], ...value.map((member) => [member])];
  return [undefined];
}

function changed(from: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  const members = Object.entries(asObject(from) ?? {}).flatMap(([own, member]) => {
    const next = own === name ? changed(member, rest, value) : member;
    return next === undefined ? [] : [[own, next] as const];
  });
  return Object.fromEntries(members);
}
