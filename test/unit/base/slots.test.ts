import { describe, expect, test } from "vitest";
import { createSlots } from "../../../src/base/slots.ts";

const patient = new AbortController().signal;

/** Work that a test ends when it wants to. */
function works(slots: ReturnType<typeof createSlots>) {
  const begun: string[] = [];
  return {
    begun,
    begin(name: string, signal: AbortSignal = patient) {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      const result = slots.run(() => {
        begun.push(name);
        return promise;
      }, signal);
      return { result, end: () => resolve(name), fail: () => reject(new Error(name)) };
    },
  };
}

describe("slots", () => {
  test("so many at once, the others in their order, the rest refused", async () => {
    const { begin, begun } = works(createSlots(2, 2));
    const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => begin(name)) as [
      ReturnType<typeof begin>,
      ReturnType<typeof begin>,
      ReturnType<typeof begin>,
      ReturnType<typeof begin>,
    ];
    await expect(begin("e").result).rejects.toMatchObject({
      reason: "rate_limited",
      details: { retryAfterSeconds: 1 },
    });
    expect(begun).toEqual(["a", "b"]);
    b.end();
    expect(await b.result).toBe("b");
    await expect.poll(() => begun).toEqual(["a", "b", "c"]);
    a.fail();
    await expect(a.result).rejects.toThrow("a");
    await expect.poll(() => begun).toEqual(["a", "b", "c", "d"]);
    c.end();
    d.end();
    await Promise.all([c.result, d.result]);
    const f = begin("f");
    f.end();
    expect(await f.result).toBe("f");
  });

  test("who goes away gives its place in the queue up, and takes no slot", async () => {
    const { begin, begun } = works(createSlots(1, 1));
    const first = begin("first");
    const leaving = new AbortController();
    const gone = begin("gone", leaving.signal);
    leaving.abort(new Error("went away"));
    await expect(gone.result).rejects.toThrow("went away");
    const next = begin("next");
    await expect(begin("gone before", AbortSignal.abort(new Error("was away"))).result).rejects.toThrow("was away");
    first.end();
    next.end();
    expect(await next.result).toBe("next");
    expect(begun).toEqual(["first", "next"]);
  });
});
