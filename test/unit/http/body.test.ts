import { Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import { type BodyLease, createBodyBudget, readBody } from "../../../src/http/body.ts";
import type { Call } from "../../../src/transport/calls/call.ts";

const lease: BodyLease = { holds: () => {}, release: () => {} };
const limits = { maxBytes: 10, timeoutMs: 60_000, lease };
const announced = (bytes: number | undefined) => ({ bytes });
const patient = () => new AbortController().signal;

/** A body of which some has come. */
function bodyWith(...arrived: string[]): Readable {
  const stream = new Readable({ read: () => {} });
  for (const chunk of arrived) stream.push(chunk);
  return stream;
}

async function reasonOf(reading: Promise<Buffer>): Promise<unknown> {
  return reading.then(
    (body) => body.toString(),
    (refusal: { reason: string }) => refusal.reason,
  );
}

describe("the memory of bodies", () => {
  const many = { ...limits, maxBytes: 1_000_000 };
  const addressOf = ({ remoteAddress }: InboundRequest) => remoteAddress;
  const call = (tenant: string | undefined, remoteAddress = "") =>
    ({ ...(tenant !== undefined && { caller: { tenantId: tenant } }), inbound: { remoteAddress } }) as Call;

  test("a body that arrives byte by byte is kept in one piece", async () => {
    const stream = bodyWith();
    const reading = readBody(stream, announced(undefined), many, patient());
    for (let i = 0; i < 5_000; i++) stream.push(Buffer.alloc(4096, i).subarray(0, 1));
    stream.push(null);
    const body = await reading;
    expect(body).toEqual(Buffer.from(Array.from({ length: 5_000 }, (_, i) => i & 255)));
    expect(body.buffer.byteLength).toBeLessThanOrEqual(16_384);
  });

  test.each([1, 4, 5, 6, 100_000])("a body in pieces of %i bytes is read as it was sent", async (pieceBytes) => {
    const sent = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 7) & 255));
    for (const bytes of [undefined, sent.byteLength]) {
      const stream = bodyWith();
      const reading = readBody(stream, announced(bytes), many, patient());
      for (let at = 0; at < sent.byteLength; at += pieceBytes) stream.push(sent.subarray(at, at + pieceBytes));
      stream.push(null);
      expect((await reading).equals(sent)).toBe(true);
    }
  });

  test("a declared size is reserved before a byte is read, a frame's after its first five", async () => {
    const budget = createBodyBudget({ maxBytes: 2000, addressOf });
    const first = budget.lease(call("a"));
    const declared = readBody(bodyWith(), announced(900), { ...many, lease: first }, patient());
    declared.catch(() => {});
    expect(budget.inFlightBytes).toBe(900);
    const second = budget.lease(call("a"));
    const refused = readBody(bodyWith("01"), announced(101), { ...many, lease: second }, patient());
    expect(await reasonOf(refused)).toBe("overloaded");
    const framed = bodyWith();
    const third = budget.lease(call("b"));
    const reading = readBody(framed, { bytes: undefined, isFramed: true }, { ...many, lease: third }, patient());
    framed.push(Buffer.from([0, 0, 0]));
    framed.push(Buffer.from([3, 232, 0]));
    expect(await reasonOf(reading)).toBe("overloaded");
    const fourth = budget.lease(call("b"));
    const growing = readBody(bodyWith("x".repeat(1001)), announced(undefined), { ...many, lease: fourth }, patient());
    expect(await reasonOf(growing)).toBe("overloaded");
    for (const lease of [first, second, third, fourth]) lease.release();
    expect(budget.inFlightBytes).toBe(0);
  });

  test("while memory is short one large body at a time has room, and small ones have", () => {
    let isTight = false;
    const budget = createBodyBudget({ maxBytes: 8_000_000, addressOf, isTight: () => isTight });
    const leaseOf = (tenant: string) => budget.lease(call(tenant));
    const first = leaseOf("a");
    first.holds(1_000_000);
    isTight = true;
    expect(() => leaseOf("b").holds(1_000_000)).toThrow(expect.objectContaining({ reason: "overloaded" }));
    // Of no declared length: it is refused once it is large.
    const growing = leaseOf("b");
    growing.holds(200_000);
    expect(() => growing.holds(300_000)).toThrow(expect.objectContaining({ reason: "overloaded" }));
    growing.release();
    // What is there may grow, and another has its turn afterwards.
    first.holds(2_000_000);
    first.release();
    leaseOf("b").holds(1_000_000);
    expect(budget.inFlightBytes).toBe(1_000_000);
  });

  test("each tenant has half, callers without credentials an eighth in all, and an address of theirs a quarter of it", () => {
    const budget = createBodyBudget({ maxBytes: 1000, addressOf });
    const hold = (tenant: string | undefined, address: string, bytes: number) =>
      budget.lease(call(tenant, address)).holds(bytes);
    const refused = expect.objectContaining({ reason: "overloaded" });
    hold("a", "", 500);
    expect(() => hold("a", "", 1)).toThrow(refused);
    for (const address of ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]) {
      expect(() => hold(undefined, address, 32)).toThrow(refused);
      hold(undefined, address, 31);
    }
    expect(() => hold(undefined, "192.0.2.5", 31)).toThrow(refused);
    hold("b", "", 376);
  });

  test("for any sequence of reservations, no share is exceeded and nothing is lost", () => {
    const holder = fc.constantFrom(
      ...["a", "b", "c"].map((tenant) => call(tenant)),
      ...["192.0.2.1", "192.0.2.2"].map((address) => call(undefined, address)),
    );
    const step = fc.oneof(
      fc.record({ open: holder }),
      fc.record({ hold: fc.nat(9), bytes: fc.nat(700) }),
      fc.record({ release: fc.nat(9) }),
    );
    const property = fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const budget = createBodyBudget({ maxBytes: 1000, addressOf });
      const leases: { lease: BodyLease; name: string; bytes: number; over: boolean }[] = [];
      const sum = (name?: string) =>
        leases.reduce((all, one) => all + (one.over || (name ?? one.name) !== one.name ? 0 : one.bytes), 0);
      for (const one of steps) {
        if ("open" in one) {
          const { caller, inbound } = one.open;
          const name = caller?.tenantId ?? inbound.remoteAddress;
          leases.push({ lease: budget.lease(one.open), name, bytes: 0, over: false });
        } else if ("hold" in one && leases[one.hold] !== undefined) {
          const held = leases[one.hold] as (typeof leases)[number];
          try {
            held.lease.holds(one.bytes);
            held.bytes = Math.max(held.bytes, one.bytes);
          } catch (error) {
            expect(error).toMatchObject({ reason: "overloaded", details: { retryAfterSeconds: 1 } });
          }
        } else if ("release" in one && leases[one.release] !== undefined) {
          const released = leases[one.release] as (typeof leases)[number];
          released.lease.release();
          released.over = true;
        }
        expect(budget.inFlightBytes).toBe(sum());
        expect(sum()).toBeLessThanOrEqual(1000);
        for (const tenant of ["a", "b", "c"]) expect(sum(tenant)).toBeLessThanOrEqual(500);
        expect(sum("192.0.2.1") + sum("192.0.2.2")).toBeLessThanOrEqual(125);
      }
      for (const { lease: each } of leases) each.release();
      expect(budget.inFlightBytes).toBe(0);
    });
    fc.assert(property);
  });
});
