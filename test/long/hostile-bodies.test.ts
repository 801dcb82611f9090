/**
 * Whatever is in a body, to refuse it costs about what it costs to read a good one of its size, and the refusal names
 * no more than a caller can read. Compared by processor time in one run with a wide margin: work that grows faster than
 * the body exceeds it a hundredfold.
 */
import type { Message } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { invalidRequests, maxViolations, ServiceError } from "../../src/base/errors.ts";
import { readBinary } from "../../src/transport/codec/binary-records.ts";
import { readJson } from "../../src/transport/codec/json-reader.ts";
import { rulesOf } from "../../src/transport/codec/rules.ts";
import { fullRequest, spellings } from "../harness/full-bodies.ts";
import { hostileBinary, hostileJson } from "../harness/hostile-bodies.ts";
import { methodOn, type WireMethod } from "../harness/methods.ts";

/** The JSON of the JSON routes, canonical JSON, and protobuf. */
type Spelling = "rest" | "canonical" | "binary";

const reads: Readonly<Record<Spelling, (method: WireMethod, body: Buffer) => Message>> = {
  rest: ({ desc }, body) => readJson(desc.input, body, "rest"),
  canonical: ({ desc: { input } }, body) => readJson(input, body, "canonical"),
  binary: ({ desc: { input } }, body) => readBinary(input, body),
};

/** The refusal of a body; undefined for that of a good request. */
function refusalOf(spelling: Spelling, method: WireMethod, body: Buffer): ServiceError | undefined {
  try {
    const violations = rulesOf(method.desc.input)(reads[spelling](method, body));
    return violations.length === 0 ? undefined : invalidRequests(violations);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Processor time that the work takes, in milliseconds. */
function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

/** So many times what a good body of the same size costs, and this much in any case. */
const margin = 30;
const floorMs = 120;

const cases: readonly [route: string, spelling: Spelling, sizeBytes: number][] = [
  ["/v1/sdk/protection-plan", "rest", 196_608],
  ["/v1/sdk/evidence", "canonical", 196_608],
  ["/v1/sdk/key-access-plan", "binary", 262_144],
  ["/v1/sdk/artifact-register", "rest", 524_288],
  ["/v1/sdk/artifact-register", "canonical", 524_288],
  ["/v1/sdk/artifact-register", "binary", 1_048_576],
  ["/access/v1/evaluation", "rest", 131_072],
  ["/access/v1/evaluation", "canonical", 131_072],
  ["/access/v1/evaluation", "binary", 262_144],
];

test.each(cases)(
  "%s in %s, %i bytes",
  (route, spelling, sizeBytes) => {
    const method = methodOn(route);
    const good = spellings[spelling](method, fullRequest(method, sizeBytes));
    expect(good.length).toBeGreaterThan(sizeBytes / 2);
    expect(refusalOf(spelling, method, good)).toBeUndefined();
    const goodMs = Math.min(...Array.from({ length: 5 }, () => cpuMs(() => refusalOf(spelling, method, good))));
    const limitMs = Math.max(floorMs, margin * goodMs);
    const { input } = method.desc;
    const families = spelling === "binary" ? hostileBinary(input) : hostileJson(input, spelling);
    /** What a body costs at least, in milliseconds. */
    const leastMs = (body: Buffer, family: string): number => {
      const costs: number[] = [];
      // One slow run may be the machine's, or the engine's that compiles; one that takes many times as long is neither.
      do {
        const costMs = cpuMs(() => {
          const violations = refusalOf(spelling, method, body)?.details.violations ?? [];
          expect(violations.length, family).toBeLessThanOrEqual(maxViolations);
        });
        costs.push(costMs);
      } while (costs.length < 8 && (costs.at(-1) as number) > limitMs && (costs[0] as number) < 8 * limitMs);
      return Math.min(...costs);
    };
    for (const { family, bytes } of families) {
      // Work that grows faster than the body shows in a part of it already: the whole one might take minutes.
      for (const size of [sizeBytes / 16, sizeBytes]) {
        const body = bytes(size);
        expect(body.length, family).toBeLessThanOrEqual(size);
        const what = `${family}, ${size} bytes: ms, where a good body takes ${goodMs}`;
        expect(leastMs(body, family), what).toBeLessThan(limitMs);
      }
    }
  },
  60_000,
);
