import fc from "fast-check";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { isoTimeMember, writeMembersTogether } from "../../../src/telemetry/line.ts";
import { serializeError } from "../../../src/telemetry/serialize-error.ts";

const fixed = { timestamp: () => ',"time":"2026-03-01T12:00:00.000Z"', base: { service: "svc" } } as const;

/** pino with the settings of our logger, as it is and with its lines made in one go. */
function pair() {
  const make = () => {
    const lines: string[] = [];
    const logger = pino(
      {
        ...fixed,
        messageKey: "message",
        formatters: { level: (label) => ({ level: label }) },
        serializers: { err: serializeError },
      },
      { write: (line) => void lines.push(line) },
    );
    return { logger, lines };
  };
  const [stock, ours] = [make(), make()];
  writeMembersTogether(ours.logger, "message");
  return { stock, ours };
}

const circle: Record<string, unknown> = { name: "circle" };
circle.self = circle;
const thrown = fc.constantFrom<unknown>(new TypeError('bad "text"\n'), "text", null, undefined, circle, 7n);
const values = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.double(),
  fc.jsonValue(),
  fc.constantFrom<unknown>(undefined, NaN, 12n, Symbol("s"), () => 1, new Date(0), circle, { deep: [1n] }),
);
const fields = fc
  .tuple(fc.dictionary(fc.string(), values), fc.option(thrown, { nil: undefined }))
  .map(([members, err]) => ({ ...members, err }));

describe("a line made in one go", () => {
  test("is pino's own, whatever the fields and the message", () => {
    const { stock, ours } = pair();
    fc.assert(
      fc.property(fields, fc.string({ unit: "binary" }), fields, (members, message, bindings) => {
        for (const { logger } of [stock, ours]) {
          logger.info(members, message);
          logger.child(bindings).error(members, message);
        }
        expect(ours.lines.splice(0)).toEqual(stock.lines.splice(0));
      }),
    );
  });

  test("is not made by pino where the fields fit into JSON", () => {
    const { ours } = pair();
    const { logger, lines } = ours;
    const internals = logger as unknown as Record<symbol, unknown>;
    // pino's own way needs this; ours does not.
    internals[pino.symbols.stringifySym] = undefined;
    logger.info({ nested: { a: 1 }, err: new Error("failed") }, "line");
    expect(lines).toHaveLength(1);
    expect(() => logger.info({ circle }, "line")).toThrow(TypeError);
  });
});

test("the time is that of each line, to the millisecond", () => {
  const readings = fc.oneof(
    fc.integer(),
    fc.integer({ min: 0, max: 2_000 }),
    fc.maxSafeNat().map((ms) => ms % 8.64e15),
  );
  fc.assert(
    fc.property(fc.array(readings), (times) => {
      const expected = times.map((ms) => `,"time":"${new Date(ms).toISOString()}"`);
      const left = [...times];
      const member = isoTimeMember({ now: () => left.shift() as number });
      expect(expected.map(() => member())).toEqual(expected);
    }),
  );
});
