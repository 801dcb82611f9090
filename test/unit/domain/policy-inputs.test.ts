/** The table of policy inputs: what cannot be made of its rows agrees with them. */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { queryOf } from "../../../src/domain/decision.ts";
import type { EvaluationRequest } from "../../../src/domain/requests.ts";
import { claimedRows, isRow, type Row, type Rows } from "../../../src/policy/model/input-table.ts";
import { inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { parseQuery } from "../../../src/policy/model/query.ts";

const { content_digest_present: _, ...members } = claimedRows;

function sampleOf({ kind, words }: Row): unknown {
  const values = { text: words?.[0] ?? "a", set_of_text: ["a"], whole_number: 7, yes_no: true, tags: { a: "b" } };
  return values[kind];
}

function recordOf(rows: Rows): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(rows).map(([name, row]) => [name, isRow(row) ? sampleOf(row) : recordOf(row)]),
  );
}

test("each claimed input is read from the request's member of its name", () => {
  const request = { operation: "protect", content_digest: "a:b", ...recordOf(members) } as unknown as EvaluationRequest;
  const { action, claimed } = queryOf({ route: "evaluation", request });
  expect({ action, claimed }).toEqual({
    action: "protect",
    claimed: { content_digest_present: true, ...recordOf(members) },
  });
});

test("each claimed input can be written in a test, and is read by its name", () => {
  const query = parseQuery({ tenant: "t", action: "protect", claimed: recordOf(claimedRows) });
  const catalogue = inputCatalogue({});
  for (const input of catalogue.inputs.filter(({ path }) => path.startsWith("context.claimed."))) {
    const expected = input.kind === "tags" ? [["a", "b"]] : sampleOf(input as Row);
    expect(catalogue.reader(input.name)(query), input.path).toEqual(expected);
  }
});

test("the schema of records has each member that policies read of a request", async () => {
  const { $defs } = JSON.parse(await readFile(`${import.meta.dirname}/../../../api/ledger.schema.json`, "utf8"));
  const properties = { ...$defs.described.properties, ...$defs.decision.properties.request.properties };
  const missing = (rows: Rows, of: typeof properties): readonly string[] =>
    Object.entries(rows).flatMap(([name, row]) => {
      if (of?.[name] === undefined) return [name];
      return isRow(row) ? [] : missing(row, of[name].properties);
    });
  expect(missing(members, properties)).toEqual([]);
});
