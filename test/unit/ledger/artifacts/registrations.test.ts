import fc from "fast-check";
import { expect, test } from "vitest";
import { type PrincipalId, parsePrincipalId } from "../../../../src/base/ids.ts";
import { indexChange, type KnownRegistration } from "../../../../src/ledger/artifacts/registration-index.ts";
import {
  countingRegistrations,
  maxReliedOn,
  newestRegistration,
  type Registration,
} from "../../../../src/ledger/artifacts/registrations.ts";
import { must } from "../../domain/world.ts";

const principal = (name: string): PrincipalId => must(parsePrincipalId(name));

/** `o` registers, `O` with a citation that matched, `O!` with an allowed rewrap of the artifact; labels follow a colon. */
function written(text: string): readonly Registration[] {
  return text
    .split(" ")
    .filter((word) => word !== "")
    .map((word, leafIndex) => {
      const [who = "", labels = ""] = word.split(":");
      return {
        leafIndex,
        principalId: principal(who.charAt(0).toLowerCase()),
        matched: who.charAt(0) !== who.charAt(0).toLowerCase(),
        rewraps: who.endsWith("!"),
        labels: [...labels],
      };
    });
}

const leavesOf = (registrations: readonly Registration[]) => registrations.map(({ leafIndex }) => leafIndex);
const labelsOf = (registrations: readonly Registration[]) =>
  [...new Set(registrations.flatMap(({ labels }) => labels))].sort();

test.each([
  ["", [], undefined, ""],
  ["o:a", [0], 0, "a"],
  ["O:a", [0], 0, "a"],
  // Its own principal may say it again, and washes no label off.
  ["o:a o:b", [0, 1], 1, "ab"],
  ["O:a O:", [0, 1], 1, "a"],
  // One with a citation outranks one without, whatever its principal.
  ["O:a o:", [0, 1], 0, "a"],
  ["o:a O: o:b", [0, 1, 2], 1, "ab"],
  ["s:x O:a", [0, 1], 1, "ax"],
  ["s:x O:a s:y", [0, 1], 1, "ax"],
  ["s:x O:a S:y", [0, 1], 1, "ax"],
  // A stranger changes nothing.
  ["o:a s:x", [0], 0, "a"],
  ["O:a s:x S:y", [0], 0, "a"],
  ["o:a O:b S:y o:", [0, 1, 3], 1, "ab"],
  // A rewrap that was allowed does, and whose the artifact is stays.
  ["O:a R!:b", [0, 1], 1, "ab"],
  ["O:a R!:b R:c", [0, 1], 1, "ab"],
  ["O:a R!:b O:c", [0, 1, 2], 2, "abc"],
  ["o:a R!:b S:c o:d", [0, 1, 3], 1, "abd"],
  ["R!:a O:b", [0], 0, "a"],
])("which registrations count, which gives the facts, and all labels: %s", (text, counts, newest, labels) => {
  const counting = countingRegistrations(written(text));
  expect(leavesOf(counting)).toEqual(counts);
  expect(newestRegistration(counting)?.leafIndex).toBe(newest);
  expect(labelsOf(counting)).toEqual([...labels]);
});

const drawn: fc.Arbitrary<Registration> = fc
  .record({
    principalId: fc.constantFrom(principal("o"), principal("s"), principal("r")),
    matched: fc.boolean(),
    rewraps: fc.boolean(),
    labels: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { maxLength: 2 }),
  })
  .map((one) => ({ ...one, leafIndex: 0, rewraps: one.matched && one.rewraps }));
const history = fc
  .array(drawn, { maxLength: 12 })
  .map((all) => all.map((one, leafIndex): Registration => ({ ...one, leafIndex })));

const said = (registrations: readonly Registration[]) => {
  const counting = countingRegistrations(registrations);
  return { newest: newestRegistration(counting)?.leafIndex, labels: labelsOf(counting) };
};

test("a label never disappears", () => {
  fc.assert(
    fc.property(history, (all) => {
      for (let size = 1; size <= all.length; size++) {
        const [before, after] = [said(all.slice(0, size - 1)), said(all.slice(0, size))];
        expect(after.labels).toEqual(expect.arrayContaining(before.labels));
      }
    }),
  );
});

test("registrations of strangers change nothing that a decision relies on, in any place and order", () => {
  const stranger = drawn.map((one): Registration => ({ ...one, principalId: principal("x"), rewraps: false }));
  const isOwned = (all: readonly Registration[]) => all[0]?.matched === true;
  fc.assert(
    fc.property(history.filter(isOwned), fc.array(fc.tuple(stranger, fc.nat(12))), (all, strangers) => {
      const mixed = strangers.reduce<readonly Registration[]>(
        (list, [one, place]) => list.toSpliced(1 + (place % list.length), 0, one),
        all,
      );
      const own = countingRegistrations(mixed).filter(({ principalId }) => principalId !== "x");
      expect(countingRegistrations(mixed)).toEqual(own);
      expect(own).toEqual(countingRegistrations(all));
    }),
  );
});

test("an artifact that is unknown stays unknown", () => {
  const fresh = written("O:a");
  const nothing = { added: [], superseded: [] };
  expect(indexChange(["unreadable"], fresh)).toEqual(nothing);
  const many: readonly KnownRegistration[] = Array.from({ length: maxReliedOn + 1 }, (_, leafIndex) => {
    return { leafIndex, principalId: principal("o"), matched: false, rewraps: false, labels: [`${leafIndex}`] };
  });
  expect(indexChange(many, fresh)).toEqual(nothing);
  expect(indexChange(many.slice(1), []).superseded).toEqual([]);
});
