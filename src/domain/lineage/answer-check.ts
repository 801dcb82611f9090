/** Compares an answer with the record that its receipt proves. */
import { isDeepStrictEqual } from "node:util";
import { recordRelations } from "../../../gen/record-relations.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";

type Json = Readonly<Record<string, unknown>>;

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
const routes: Readonly<Record<string, { readonly holder: string }>> = recordRelations.routes;
const parts = ["decision", "execution", "handling", "registration", "ingestion"];

/**
 * Returns the members of the answer that differ from the record, such as `decision.allow`. Parts that the file lacks
 * are not compared; of a present part, every member is. A part that answers of the record's route never have is a
 * difference.
 *
 * @param answer of a JSON route, or only its `decision`, `registration` or `ingestion`
 */
export function answerDifferences(answer: unknown, record: StoredRecord): readonly string[] {
  const route = record.route.slice("/v1/sdk/".length);
  const holder = routes[route]?.holder ?? "receipt";
  const given = objectOf(answer);
  const whole = given.receipt === undefined ? given : { [holder]: given };
  const rows = table.filter(
    ({ of, when = [] }) => (of?.includes(route) ?? true) && when.every((one) => holds(one, record)),
  );
  const names = new Set(rows.map(({ member }) => member));
  const own = new Set([...names].map((name) => name.split(".", 1)[0]));
  const differing = [...names].filter((name) => {
    const row = rows.find(({ member }) => member === name) as Row;
    const value = at(whole, name);
    const isLeftOut =
      value === undefined && (!name.includes(".") || at(whole, name.split(".", 1)[0] as string) === undefined);
    return !isLeftOut && !isDeepStrictEqual(value, settled(row, record));
  });
  return [...differing, ...parts.filter((part) => !own.has(part) && whole[part] !== undefined)];
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
  if (row.count !== undefined) return Object.keys(objectOf(at(record, row.count))).length;
  return row.at === undefined ? row.value : (at(record, row.at) ?? row.else);
}

function at(value: unknown, path: string): unknown {
  return path.split(".").reduce((inner, member) => objectOf(inner)[member], value);
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
