/** Converts a counterexample of the solver to a question in the form that operators write. */
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { place, usualText } from "../check/question.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import type { WrittenQuestion } from "../model/query.ts";
import { asObject, type Counterexample } from "./prover-wire.ts";

type Json = Readonly<Record<string, unknown>>;

/** Undefined if it does not have the schema's form. Entities that the solver made up are left out. */
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
  // The solver does not know the rules for ids.
  const { principal_id: id } = question.principal as { readonly principal_id?: unknown };
  if (typeof id !== "string" || parsePrincipalId(id) === undefined) place(question, "caller.principal_id", usualText);
  if (typeof question.tenant !== "string" || parseTenantId(question.tenant) === undefined)
    question.tenant = usualTenant;
  return question;
}

/** `{ "type", "id" }`, or the same within the only member `__entity`. */
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
