/** Compares answers with the records that their receipts prove. */
import { isDeepStrictEqual } from "node:util";
import { recordRelations } from "../../../gen/record-relations.ts";
import { type JsonObject, objectOf } from "../../base/json.ts";
import { evaluationPath } from "../../base/vocabulary.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";

interface Condition {
  readonly at: string;
  readonly is?: unknown;
}

/**
 * Rule for a member whose value follows from the record: one of the members besides `when`.
 * `clients/conformance/README.md` defines it.
 */
interface Settled {
  readonly when?: readonly Condition[];
  readonly value?: unknown;
  readonly at?: string;
  readonly else?: unknown;
  readonly has?: string;
  readonly count?: string;
  readonly list?: readonly Settled[];
}

interface Row extends Settled {
  readonly member: string;
  readonly of?: readonly string[];
}

const table: readonly Row[] = recordRelations.answer;
const routes: Readonly<Record<string, { readonly kind: string; readonly holder: string }>> = recordRelations.routes;
const parts = ["decision", "execution", "handling", "registration", "ingestion"];

/**
 * Returns the members of the answer that differ from the record, such as `decision.allow`. Parts that the file lacks
 * are not compared; of a present part, every member is. A part that answers of the record's route never have is a
 * difference, also beside the members of the part that is the file.
 *
 * @param answer of a JSON route, or only its `decision`, `registration` or `ingestion`
 */
export function answerDifferences(answer: unknown, record: StoredRecord): readonly string[] {
  const route = record.route.slice("/v1/sdk/".length);
  const answered = routes[route];
  // No call is answered with the receipt of another kind, such as an operator's record.
  if (answered?.kind !== record.kind) return ["receipt"];
  const given = objectOf(answer);
  const whole = given.receipt === undefined ? given : { [answered.holder]: given };
  const rows = table.filter(
    ({ of, when = [] }) => (of?.includes(route) ?? true) && when.every((one) => holds(one, record)),
  );
  const names = new Set(rows.map(({ member }) => member));
  const own = new Set([...names].map((name) => name.split(".", 1)[0] as string));
  const differing = [...names].filter((name) => {
    const row = rows.find(({ member }) => member === name) as Row;
    const value = at(whole, name);
    const isLeftOut =
      value === undefined && (!name.includes(".") || at(whole, name.split(".", 1)[0] as string) === undefined);
    return !isLeftOut && !isDeepStrictEqual(value, settled(row, record));
  });
  const foreign = whole === given ? parts.filter((part) => !own.has(part)) : [...new Set([...own, ...parts])];
  return [...differing, ...foreign.filter((part) => given[part] !== undefined)];
}

function holds({ at: path, is }: Condition, record: StoredRecord): boolean {
  const value = at(record, path);
  return is === undefined ? value !== undefined : isDeepStrictEqual(value, is);
}

/** Undefined if the record implies that there is no value. */
function settled(row: Settled, record: StoredRecord): unknown {
  if (row.list !== undefined) {
    const items = row.list.filter(({ when = [] }) => when.every((one) => holds(one, record)));
    return items.map((item) => settled(item, record)).filter((value) => value !== undefined);
  }
  if (row.has !== undefined) return at(record, row.has) !== undefined;
  if (row.count !== undefined) return Object.keys(Object(at(record, row.count))).length;
  return row.at === undefined ? row.value : (at(record, row.at) ?? row.else);
}

function at(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, member) => objectOf(inner)[member], value);
}

// Answers to AuthZEN questions.

/**
 * Returns the parts of an answer, each with its path, such as `evaluations[2].`, which is empty for the whole answer.
 * Those of several questions, or of a search, have a record each.
 */
export function answerParts(answer: unknown): readonly { readonly path: string; readonly answer: unknown }[] {
  const { evaluations, context } = objectOf(answer);
  const { decisions } = objectOf(context);
  if (Array.isArray(evaluations)) return evaluations.map((each, i) => ({ path: `evaluations[${i}].`, answer: each }));
  if (Array.isArray(decisions)) return decisions.map((each, i) => ({ path: `context.decisions[${i}].`, answer: each }));
  return [{ path: "", answer }];
}

/** Whether the record is of an AuthZEN question, whose answers have another form. */
export function isOfEvaluation({ kind, route }: StoredRecord): boolean {
  return kind === "decision" && route === evaluationPath;
}

/**
 * Returns the members of one answer to a question, or of one decision of a search, that differ from the record.
 *
 * @param path of the part: what a part says of itself does not decide what is compared
 */
export function evaluationDifferences(
  answer: unknown,
  { record_id, outcome }: StoredRecord,
  path: string,
): readonly string[] {
  const { decision, decision_id, context } = objectOf(answer);
  if (path.startsWith("context."))
    return [...(decision === outcome.allow ? [] : ["decision"]), ...(decision_id === record_id ? [] : ["decision_id"])];
  const said = objectOf(context);
  const allowed: Readonly<Record<string, readonly unknown[]>> = {
    decision_id: [record_id],
    policy_revision: [outcome.policy_revision],
    reasons: [outcome.reasons_withheld === true ? [] : outcome.reasons],
    obligations: [outcome.obligations ?? []],
  };
  return [
    ...(decision === outcome.allow ? [] : ["decision"]),
    ...Object.entries(allowed)
      .filter(([name, values]) => {
        const value = said[name] ?? (name === "obligations" ? [] : undefined);
        return !values.some((expected) => isDeepStrictEqual(value, expected));
      })
      .map(([name]) => `context.${name}`),
  ];
}

/**
 * Returns the differences between the whole answer and its records: no record may occur twice, and the results of a
 * search are the permitted candidates in order.
 *
 * @param records of the parts, in their order
 */
export function wholeDifferences(answer: unknown, records: readonly StoredRecord[]): readonly string[] {
  const { context, results, page, evaluations } = objectOf(answer);
  const isSearch = !Array.isArray(evaluations) && Array.isArray(objectOf(context).decisions);
  const parts = answerParts(answer);
  const repeated = parts.filter(
    (_, i) => records.findIndex(({ record_id }) => record_id === records[i]?.record_id) !== i,
  );
  // Members of another form of answer would be there without a record.
  const foreign = isSearch
    ? ["decision"]
    : ["results", "page", ...(parts[0]?.path === "" ? [] : ["decision", "context"])];
  const differences = [
    ...repeated.map(({ path }) => `${path}decision_id`),
    ...foreign.filter((name) => objectOf(answer)[name] !== undefined),
  ];
  if (!isSearch) return differences;
  const decisions = parts.map((part) => objectOf(part.answer));
  const fits = searches.map((search) => {
    const found = records.map(search);
    const strange = parts.filter(
      (_, i) => !Object.entries(namesOf(found[i])).every(([name, value]) => decisions[i]?.[name] === value),
    );
    const permitted = found.filter((_, i) => records[i]?.outcome.allow === true);
    const isSame = isDeepStrictEqual(results ?? [], permitted);
    const count = objectOf(page).count ?? permitted.length;
    return [
      ...strange.map(({ path }) => `${path}${Object.keys(namesOf(found[0])).join()}`),
      ...(isSame ? [] : ["results"]),
      ...(count === permitted.length ? [] : ["page.count"]),
    ];
  });
  // The answer does not name the kind of search: it must match one of the three.
  const [best = []] = fits.toSorted((one, other) => one.length - other.length);
  return [...differences, ...best];
}

/** The result for a record in searches for subjects, resources and actions. */
const searches: readonly ((record: StoredRecord) => JsonObject)[] = [
  ({ request, caller }) => {
    const { type = "principal", id = caller.principal_id } = objectOf(request.on_behalf_of);
    return { type, id };
  },
  ({ request }) => {
    const { kind, id } = objectOf(request.resource);
    return { type: kind, id };
  },
  ({ request }) => ({ name: request.requested_action ?? request.operation }),
];

/** The members of a search's decision that name its candidate. */
function namesOf({ type: _, ...names }: JsonObject = {}): JsonObject {
  return names;
}
