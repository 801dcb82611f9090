/** A key has one name: whatever else may be read as that name is refused, so that no rule is passed by an alias. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { KeyReferenceRule } from "../../../src/base/vocabulary.ts";
import { read } from "../../../src/config/schema.ts";
import { keyReferences } from "../../../src/config/values.ts";
import {
  canonicalKeyTransport,
  keyReferenceAliases,
  keyReferenceLookup,
  parseKeyTransport,
} from "../../../src/policy/guidance/key-references.ts";

const tenantA = "tenant-a" as TenantId;
const rule = (pattern: string, ...tenants: string[]): KeyReferenceRule => ({
  pattern,
  mode: "wrapped_key_reference",
  origin: pattern,
  ...(tenants.length > 0 && { tenants: tenants as TenantId[] }),
});
const rules = [rule("kms://*"), rule("kms://tenant-b/*", "tenant-b")];
const isAlias = keyReferenceAliases(rules);
const lookUp = keyReferenceLookup(rules);

/** What the search below does not draw. */
test.each([
  "kms:\\\\tenant-b\\k",
  "kms\t://tenant-b/k",
  "kms://tenant-b\u3002/k",
  "%256bms://tenant-b/k",
  "\uff056bms://tenant-b/k",
  "k%25ef%bd%8ds://tenant-b/k",
  "km%ef%b%ef%bd%84%93://tenant-b/k",
  "kms://tenant\u2011b/k",
])("%j is refused", (reference) => {
  expect(isAlias(reference)).toBe(true);
});

test.each(["kms://tenant-a/keys/42", "kms://tenant-b/k", "kms://key-1", "kms://a.b.example/k@2/V:1"])(
  "%s is canonical",
  (reference) => {
    expect(isAlias(reference)).toBe(false);
  },
);

test.each(["local-symmetric-key", "local-tdf-key", "Key 1", "x://KMS", "my kms key", "", "akms://x/../y", "//kms/%"])(
  "%j is a caller-owned key",
  (reference) => {
    expect(isAlias(reference)).toBe(false);
    expect(lookUp(tenantA, reference)).toBe("unmanaged");
  },
);

describe("patterns in other forms", () => {
  test.each<[pattern: string, alias: string, canonical: string]>([
    ["*", "a/../b", "a/b"],
    ["*", "a%2fb", "A-b"],
    ["tenant-b/*", "x/../tenant-b/k", "tenant-b/k"],
    ["tenant-b/*", "tenant-b//k", "tenant-b/k"],
    ["tenant-b/*", "tenant-b\\k", "tenant-b/k"],
    ["/keys/tenant-b/*", "/keys/./tenant-b/k", "/keys/tenant-b/k"],
    ["*://tenant-b/*", "hsm://u@tenant-b:1/k", "hsm://tenant-b/k"],
    ["*://tenant-b/*", "hsm://Tenant-B./k", "hsm://tenant-b/k"],
    ["arn:aws:kms:*:tenant-b:*", "ARN:aws:kms:eu:tenant-b:k", "arn:aws:kms:eu:tenant-b:k"],
    ["arn:aws:kms:*:tenant-b:*", "arn:aws:kms:eu:tenant-b:x/../k", "arn:aws:kms:eu::key/K"],
    ["km*", "KMS://x", "kms://x"],
  ])("%s: %s is refused, %s is not", (pattern, alias, canonical) => {
    const decide = keyReferenceAliases([rule(pattern, "tenant-b")]);
    expect([decide(alias), decide(canonical)]).toEqual([true, false]);
  });

  test.each([
    "KMS://*",
    "kms://Tenant-B/*",
    "kms://tenant-b/%2a",
    "kms://u@h/*",
    "kms://h:1/*",
    "kms://a/../*",
    "kms://*/",
  ])("%s does not start", (pattern) => {
    const result = read(keyReferences, { [pattern]: { mode: "wrapped_key_reference", origin: "kms" } });
    expect(result).toEqual({ problem: expect.stringContaining("no canonical key reference") });
  });
});

/** Ways in which one text is another to those who resolve it. */
const respell: fc.Arbitrary<(text: string) => string> = fc.oneof(
  fc
    // Of scheme and authority: a path in capitals is another one.
    .nat(14)
    .map((at) => (text: string) => text.slice(0, at) + text.slice(at, at + 1).toUpperCase() + text.slice(at + 1)),
  fc.nat(15).map((at) => (text: string) => {
    const encoded = Buffer.from(text.slice(at, at + 1))
      .toString("hex")
      .replace(/../g, "%$&");
    return text.slice(0, at) + encoded + text.slice(at + 1);
  }),
  fc.nat(15).map((at) => (text: string) => {
    // The fullwidth forms of ASCII.
    const character = text.charCodeAt(at);
    const wide =
      character > 0x20 && character < 0x7f ? String.fromCharCode(character + 0xfee0) : text.slice(at, at + 1);
    return text.slice(0, at) + wide + text.slice(at + 1);
  }),
  fc
    .tuple(
      fc.nat(15),
      fc.constantFrom(" ", "\t", "\n", "\r", "\u00ad", "\u200b", "\u2060", "\ufeff", "\u034f", "\ufe0f"),
    )
    .map(
      ([at, invisible]) =>
        (text: string) =>
          text.slice(0, at) + invisible + text.slice(at),
    ),
  fc
    .constantFrom<[string, string]>(
      ["//tenant-b", "//x/../tenant-b"],
      ["//tenant-b", "//./tenant-b"],
      ["//tenant-b", "///tenant-b"],
      ["//tenant-b", "/tenant-b"],
      ["//tenant-b", "tenant-b"],
      ["//tenant-b", "//user:secret@tenant-b"],
      ["//tenant-b", "//@tenant-b"],
      ["tenant-b/", "tenant-b:443/"],
      ["tenant-b/", "tenant-b:/"],
      ["tenant-b/", "tenant-b./"],
      ["tenant-b/", "tenant-b//"],
      ["tenant-b/", "tenant-b/./"],
      ["tenant-b/", "tenant-b/x/../"],
      ["tenant-b/", "tenant-b\\"],
      ["//", "\\\\"],
      ["/key", "/key/"],
      ["/key", "/key?"],
      ["/key", "/key#"],
    )
    .map(
      ([from, to]) =>
        (text: string) =>
          text.replace(from, to),
    ),
);

test.each(["kms://tenant-b/*", "kms://tenant-b/key"])(
  "no alias of %s, of one tenant, is granted to another",
  (pattern) => {
    const restricted = [rule("kms://*"), rule(pattern, "tenant-b")];
    const [decide, find] = [keyReferenceAliases(restricted), keyReferenceLookup(restricted)];
    const alias = fc.array(respell, { minLength: 1, maxLength: 4 }).map((ways) => {
      return ways.reduce((text, way) => way(text), "kms://tenant-b/key");
    });
    fc.assert(
      fc.property(alias, (reference) => {
        const status = decide(reference) ? "refused" : find(tenantA, reference);
        return status === "refused" || status === "another_tenant";
      }),
      { numRuns: 5_000 },
    );
  },
);

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
  expect(keyReferenceLookup([rule(pattern)])(tenantA, reference) !== "unmanaged").toBe(matches);
});

test("the pattern with the most literal characters wins, in any place; of equals the first", () => {
  const ofAny = [rule("kms://*"), rule("kms://a/*"), rule("*/a/xxx")];
  for (const ordered of [ofAny, [...ofAny].reverse()]) {
    expect(keyReferenceLookup(ordered)(tenantA, "kms://a/1")).toMatchObject({ origin: "kms://a/*" });
  }
  const equals = [
    { ...rule("k*"), origin: "first" },
    { ...rule("*s"), origin: "second" },
  ];
  expect(keyReferenceLookup(equals)(tenantA, "kms")).toMatchObject({ origin: "first" });
});

test("a hostile pattern and reference are answered", () => {
  // With backtracking this would not end.
  const lookUp = keyReferenceLookup([rule(`${"a*".repeat(64)}b`)]);
  expect(lookUp(tenantA, "a".repeat(256))).toBe("unmanaged");
});

test("key transport has one spelling, and is read back unchanged", () => {
  const text = " origin=a=b ,mode=authorized_key_release";
  expect(canonicalKeyTransport(text)).toBe("mode=authorized_key_release, origin=a=b");
  expect(parseKeyTransport(canonicalKeyTransport(text))).toEqual(parseKeyTransport(text));
  const named = (fqns: string) =>
    canonicalKeyTransport(
      `${text}, tdf_url=https://kas, tdf_kid=r, tdf_algorithm=rsa:2048, tdf_attribute_fqns=${fqns}`,
    );
  const [first, second] = ["https://x.y/attr/a/value/b", "https://x.y/attr/c/value/d"];
  expect(named(`${second};${first};${second}`)).toBe(named(`${first};${second}`));
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
