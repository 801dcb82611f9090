/** Leaves and records of exactly their members. */
import { expect, test } from "vitest";
import { canonicalText } from "../../../src/ledger/record/canonical.ts";
import { readExactLeaf, readExactRecord } from "../../../src/ledger/record/receipt.ts";
import { memoryLog } from "./pack/memory-log.ts";
import { decision } from "./pack/records.ts";

const log = memoryLog();
log.append(decision(true));
const receipt = log.receipt(1);

test.each([
  ["leaf", readExactLeaf],
  ["record", readExactRecord],
] as const)("a %s with any member missing, of another type, or too many is refused", (kind, read) => {
  const members: Record<string, unknown> = JSON.parse(Buffer.from(receipt[kind] ?? "", "base64").toString());
  const refused = (value: unknown) =>
    expect(read(Buffer.from(canonicalText(value as never))), JSON.stringify(value)).toBeUndefined();
  for (const name of Object.keys(members)) {
    const { [name]: _, ...others } = members;
    if (name !== "policy_revision") refused(others);
    for (const other of [null, 7, true, [], [{}]]) refused({ ...others, [name]: other });
    if (typeof members[name] === "string") refused({ ...others, [name]: {} });
  }
  refused({ ...members, note: "x" });
});
