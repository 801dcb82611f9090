/** Leaves and records of exactly their members; and what of a receipt changes without being noticed. */
import { describe, expect, test } from "vitest";
import { canonicalText } from "../../../src/ledger/record/canonical.ts";
import {
  type GivenReceipt,
  readExactLeaf,
  readExactRecord,
  verifyReceipt,
} from "../../../src/ledger/record/receipt.ts";
import { memoryLog } from "./pack/memory-log.ts";
import { decision } from "./pack/records.ts";

const log = memoryLog();
for (let count = 0; count < 6; count++) log.append(decision(true));
const receipt = log.receipt(3);
const bytesOf = (member: "leaf" | "record") => Buffer.from(receipt[member] ?? "", "base64");
const membersOf = (member: "leaf" | "record"): Record<string, unknown> => JSON.parse(bytesOf(member).toString());

describe.each([
  ["leaf", readExactLeaf],
  ["record", readExactRecord],
] as const)("a %s is refused", (kind, read) => {
  const refused = (value: unknown) =>
    expect(read(Buffer.from(canonicalText(value as never))), JSON.stringify(value)).toBeUndefined();

  test("with any member missing, of another type, or too many", () => {
    for (const name of Object.keys(membersOf(kind))) {
      const { [name]: _, ...others } = membersOf(kind);
      if (name !== "policy_revision") refused(others);
      for (const other of [null, 7, true, [], [{}]]) refused({ ...others, [name]: other });
      if (typeof membersOf(kind)[name] === "string") refused({ ...others, [name]: {} });
    }
    refused({ ...membersOf(kind), note: "x" });
  });

  test("in any other encoding", () => {
    const text = bytesOf(kind).toString();
    for (const other of [
      ` ${text}`,
      `${text}\n`,
      `\ufeff${text}`,
      text.replace("{", '{"kind":"x",'),
      "null",
      "{}",
      "[]",
      "",
      "{",
    ])
      expect(read(Buffer.from(other)), other).toBeUndefined();
    for (const [from, to] of [
      ["decision", "d\\u0065cision"],
      ["decision", "\\ud800"],
      ["decision", "\\u0000"],
    ] as const)
      expect(read(Buffer.from(text.replace(from, to)))).toBeUndefined();
    expect(read(Buffer.concat([bytesOf(kind).subarray(0, -2), Buffer.of(0xff, 0x22, 0x7d)]))).toBeUndefined();
  });
});

describe("of a receipt", () => {
  const accepts = (changed: unknown) => {
    try {
      verifyReceipt(changed as GivenReceipt, log.verifier());
      return true;
    } catch (error) {
      expect(error).toMatchObject({ name: "NoteError" });
      return false;
    }
  };

  test("with any changed character is refused", () => {
    const unseen: string[] = [];
    for (const [name, value] of Object.entries(receipt)) {
      const text = String(value);
      for (let place = 0; place < text.length; place++) {
        const flipped = String.fromCharCode(text.charCodeAt(place) ^ 1);
        const changed = text.slice(0, place) + flipped + text.slice(place + 1);
        const typed = typeof value === "number" ? Number(changed) : changed;
        if (accepts({ ...receipt, [name]: typed })) unseen.push(`${name}[${place}]`);
      }
    }
    expect(unseen).toEqual([]);
  });
});
