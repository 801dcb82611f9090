import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestHeaders } from "../../../src/transport/http/request-headers.ts";

const names = ["host", "Content-Type", "x-own", "X-Own", "cookie", "set-cookie", "Idempotency-Key", "key-bin"];
const values = fc.oneof(
  fc.constantFrom("", "a", " b\t", "a, b", "c; d"),
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 8 }),
  fc.constant("caf\u00e9"),
);
const rawHeaders = fc
  .array(fc.tuple(fc.constantFrom(...names), values), { maxLength: 8 })
  .map((pairs) => [":path", "/", ":authority", "h", ...pairs.flat()]);

function eagerly(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 4; i < raw.length; i += 2) headers.append(raw[i] as string, raw[i + 1] as string);
  return headers;
}

/** What can be asked of headers; each also as the first thing that is. */
const looks: Readonly<Record<string, (headers: Headers) => unknown>> = {
  get: (headers) => ["X-OWN", "cookie", "set-cookie", "host", "none"].map((name) => headers.get(name)),
  has: (headers) => ["x-own", "none"].map((name) => headers.has(name)),
  getSetCookie: (headers) => headers.getSetCookie(),
  forEach: (headers) => {
    const seen: unknown[] = [];
    headers.forEach((value, name, all) => {
      seen.push([name, value, all === headers]);
    });
    return seen;
  },
  keys: (headers) => [...headers.keys()],
  values: (headers) => [...headers.values()],
  entries: (headers) => [...headers.entries()],
  iterator: (headers) => Object.fromEntries(headers),
  copy: (headers) => [...new Headers(headers)],
  request: (headers) => [...new Request("http://h/", { headers }).headers],
  inspect: (headers) => inspect(headers).replace(/^\w+ /, ""),
  append: (headers) => {
    headers.append("x-own", "more");
    return [...headers];
  },
  set: (headers) => {
    headers.set("X-OWN", "one");
    return [headers.get("x-own"), ...headers];
  },
  delete: (headers) => {
    headers.delete("x-OWN");
    return [headers.get("x-own"), ...headers];
  },
};

describe("headers that are filled late are what they would be, filled at once", () => {
  test.each(Object.entries(looks))("%s", (_name, look) => {
    const others = fc.array(fc.constantFrom(...Object.values(looks)), { maxLength: 3 });
    fc.assert(
      fc.property(rawHeaders, others, (raw, later) => {
        const [late, early] = [new RequestHeaders(raw), eagerly(raw)];
        for (const next of [look, ...later]) expect(next(late)).toEqual(next(early));
      }),
    );
  });

  test("every method of Headers is among these", () => {
    const asked = Object.getOwnPropertyNames(Headers.prototype).filter((name) => name !== "constructor");
    expect(Object.keys(looks)).toEqual(expect.arrayContaining(asked));
  });

  test.each(["get", "has", "delete"] as const)("%s refuses what is no name", (method) => {
    for (const name of ["", "a b", ":path", "\u00e9"]) {
      expect(() => new RequestHeaders([":path", "/"])[method](name)).toThrow(TypeError);
    }
  });

  test("they are Headers", () => expect(new RequestHeaders([])).toBeInstanceOf(Headers));
});
