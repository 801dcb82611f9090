import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { KeyReferenceRule } from "../../../src/base/vocabulary.ts";
import {
  canonicalKeyTransport,
  keyReferenceLookup,
  parseKeyTransport,
} from "../../../src/policy/guidance/key-references.ts";

const tenant = "tenant-a" as TenantId;
const rule = (pattern: string, more: Partial<KeyReferenceRule> = {}): KeyReferenceRule => {
  return { pattern, mode: "wrapped_key_reference", origin: pattern, ...more };
};

test.each([
  ["kms://*", "kms://", true],
  ["kms://*", "kms://a*b", true],
  ["kms://*", "KMS://a", false],
  ["kms://*", " kms://a", false],
  ["kms://a", "kms://a", true],
  ["kms://a", "kms://ab", false],
  ["*", "", true],
  ["*:a:*", "x:a:", true],
  ["a*a", "a", false],
  ["a*b*c", "a-b-b-c", true],
  ["a*bc*c", "abc", false],
  ["ab*ba", "aba", false],
  ["k.s+", "kms", false],
  ["a**b", "ab", true],
])("pattern %s and reference %s: %s", (pattern, reference, matches) => {
  expect(keyReferenceLookup([rule(pattern)])(tenant, reference) !== "unmanaged").toBe(matches);
});

test("the pattern with the most literal characters wins, in any place; of equals the first", () => {
  const rules = [rule("kms://*"), rule("kms://a/*"), rule("*/a/xxx")];
  for (const ordered of [rules, [...rules].reverse()]) {
    expect(keyReferenceLookup(ordered)(tenant, "kms://a/1")).toMatchObject({ origin: "kms://a/*" });
  }
  const equals = [rule("k*", { origin: "first" }), rule("*s", { origin: "second" })];
  expect(keyReferenceLookup(equals)(tenant, "kms")).toMatchObject({ origin: "first" });
});

test("a hostile pattern and reference are answered at once", () => {
  const lookUp = keyReferenceLookup([rule(`${"a*".repeat(64)}b`)]);
  const started = performance.now();
  expect(lookUp(tenant, "a".repeat(256))).toBe("unmanaged");
  expect(performance.now() - started).toBeLessThan(100);
});

test("key transport has one spelling, and is read back unchanged", () => {
  const text = " origin=a=b ,mode=authorized_key_release";
  expect(canonicalKeyTransport(text)).toBe("mode=authorized_key_release, origin=a=b");
  expect(parseKeyTransport(canonicalKeyTransport(text))).toEqual(parseKeyTransport(text));
  expect(parseKeyTransport(" none ")).toBe("none");
  expect(canonicalKeyTransport(" none ")).toBe("none");
});

test.each([
  "",
  "none, none",
  "mode=x, origin=k",
  "mode=local_provided",
  "origin=k",
  "mode=local_provided, origin=",
  "mode=local_provided, origin=a, origin=b",
  "mode=local_provided, origin=k, key=secret",
])("key transport %j is refused", (text) => {
  expect(() => parseKeyTransport(text)).toThrow(RangeError);
});
