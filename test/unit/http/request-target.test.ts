import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalTarget } from "../../../src/http/inbound-request.ts";

test("however a path is encoded, its canonical form is one", () => {
  const character = fc.constantFrom(..."/abzAZ09-._~");
  const encoded = character.chain((text) =>
    text === "/" ? fc.constant(text) : fc.constantFrom(text, hex(text), hex(text).toLowerCase()),
  );
  fc.assert(
    fc.property(fc.array(encoded), fc.webQueryParameters(), (parts, query) => {
      const target = `/${parts.join("")}?${query}`;
      const canonical = canonicalTarget(target);
      expect(canonical).toBe(`${decodeURIComponent(`/${parts.join("")}`)}?${query}`);
      expect(canonicalTarget(canonical)).toBe(canonical);
    }),
  );
});

function hex(text: string): string {
  return `%${text.charCodeAt(0).toString(16).toUpperCase()}`;
}

test.each([
  ["/a%2Fb", "/a%2Fb"],
  ["/%2561", "/%2561"],
  ["/%e2%82%ac", "/%e2%82%ac"],
  ["/%zz%6", "/%zz%6"],
  ["/a#b?c#d", "/a%23b?c#d"],
  ["*", "*"],
  ["", ""],
])("%j becomes %j: what must be encoded stays so", (target, canonical) => {
  expect(canonicalTarget(target)).toBe(canonical);
});
