/** The table that says what a record settles: one text for all packages, and every member of every answer is in it. */
import { readFileSync } from "node:fs";
import type { DescMessage } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { recordedCalls } from "../../../clients/typescript/src/receipts/answer.ts";
import { recordRelations } from "../../../gen/record-relations.ts";

const file = new URL("../../../clients/conformance/vectors/record-relations.json", import.meta.url);

test("the module equals the shared file", () => {
  expect(recordRelations).toEqual(JSON.parse(readFileSync(file, "utf8")));
});

/** Paths of the members of an answer, as far as they are compared by themselves. */
function membersOf(desc: DescMessage, prefix = ""): readonly string[] {
  return desc.fields.flatMap((field) => {
    const path = `${prefix}${field.name}`;
    if (field.name === "receipt") return [];
    return field.fieldKind === "message" && field.name !== "key_transport"
      ? membersOf(field.message, `${path}.`)
      : [path];
  });
}

test.each(Object.values(recordedCalls))(
  "every member of an answer to $route is compared, or listed as unproven",
  ({ route, answer }) => {
    const rows: readonly { readonly member: string; readonly of?: readonly string[] }[] = recordRelations.answer;
    const compared = rows.filter(({ of }) => of?.includes(route) ?? true).map(({ member }) => member);
    const retries = recordRelations.routes[route].kind === "decision" ? [] : recordRelations.unproven_of_retries;
    const unproven: readonly string[] = [...recordRelations.unproven, ...retries];
    expect([...new Set([...compared, ...unproven.filter((name) => membersOf(answer).includes(name))])].sort()).toEqual(
      [...membersOf(answer)].sort(),
    );
  },
);
