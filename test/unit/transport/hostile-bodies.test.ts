/**
 * Whatever is in a body, to refuse it costs about what it costs to read a good one of its size, and the refusal names
 * no more than a caller can read. Compared by processor time in one run with a wide margin: work that grows faster than
 * the body exceeds it a hundredfold.
 */
import { create, fromBinary, fromJsonString, type Message } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { maxViolations, ServiceError } from "../../../src/base/errors.ts";
import { binaryOptions, requireFewRecords } from "../../../src/transport/binary-records.ts";
import { createRules } from "../../../src/transport/interceptors/validate.ts";
import { jsonFaults } from "../../../src/transport/json/faults.ts";
import { parseJson, readableText } from "../../../src/transport/json/parse.ts";
import { decodeRequest } from "../../../src/transport/rest/codec.ts";
import { createRestRegistry } from "../../../src/transport/rest/registry.ts";
import { publicServices } from "../../../src/transport/services.ts";
import { fullRequest, spellings } from "../../harness/full-bodies.ts";
import { hostileBinary, hostileJson } from "../../harness/hostile-bodies.ts";
import { methodOn, type WireMethod, wireMethods } from "../../harness/methods.ts";

const registry = createRestRegistry(publicServices.flatMap(({ file }) => [file, ...file.dependencies]));
const rules = createRules(wireMethods.map(({ desc }) => ({ desc: desc.input, sample: create(desc.input) })));

type Read = (method: WireMethod, body: Buffer) => Message;

/** What each protocol makes of a body before the handler sees it. */
const reads: Readonly<Record<keyof typeof spellings, Read>> = {
  rest: ({ desc }, body) => decodeRequest(registry.message(desc.input), body, (message) => rules(desc.input, message)),
  canonical: ({ desc }, body) => {
    const text = readableText(desc.input, body);
    try {
      return fromJsonString(desc.input, text, { ignoreUnknownFields: false });
    } catch {
      const faults = jsonFaults(desc.input, parseJson(desc.input, body), "canonical", (message) =>
        rules(desc.input, message),
      );
      throw new ServiceError("invalid_request", "unreadable", { violations: faults });
    }
  },
  binary: ({ desc }, body) => {
    requireFewRecords(desc.input, body);
    return fromBinary(desc.input, body, binaryOptions);
  },
};

/** Violations that are answered; none for a good request. */
function refusalOf(read: Read, method: WireMethod, body: Buffer): number {
  try {
    return rules(method.desc.input, read(method, body)).length;
  } catch (error) {
    if (error instanceof ServiceError) return error.details.violations?.length ?? 1;
    // What protobuf-es says of a message that it cannot parse.
    return 1;
  }
}

function cpuMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** So many times what a good body of the same size costs, and this much in any case. */
const margin = 30;
const floorMs = 60;

const sizes: readonly [route: string, spelling: keyof typeof spellings, sizeBytes: number][] = [
  ["/v1/sdk/protection-plan", "rest", 196_608],
  ["/v1/sdk/evidence", "canonical", 196_608],
  ["/v1/sdk/key-access-plan", "binary", 262_144],
  ["/v1/sdk/artifact-register", "rest", 524_288],
  ["/v1/sdk/artifact-register", "canonical", 524_288],
  ["/v1/sdk/artifact-register", "binary", 1_048_576],
];

test.each(sizes)(
  "%s in %s, %i bytes",
  (route, spelling, sizeBytes) => {
    const method = methodOn(route);
    const read = reads[spelling];
    const good = spellings[spelling](method, fullRequest(method, sizeBytes));
    expect(good.length).toBeGreaterThan(sizeBytes / 2);
    expect(refusalOf(read, method, good)).toBe(0);
    const goodMs = Math.min(...Array.from({ length: 5 }, () => cpuMs(() => refusalOf(read, method, good))));
    const limitMs = Math.max(floorMs, margin * goodMs);
    const { input } = method.desc;
    const families = spelling === "binary" ? hostileBinary(input) : hostileJson(input, spelling);
    for (const { family, bytes } of families) {
      const body = bytes(sizeBytes);
      expect(body.length, family).toBeLessThanOrEqual(sizeBytes);
      const costs: number[] = [];
      // One slow run may be the machine's, or the engine's that compiles.
      do costs.push(cpuMs(() => expect(refusalOf(read, method, body), family).toBeLessThanOrEqual(maxViolations * 2)));
      while (costs.length < 4 && (costs.at(-1) as number) > limitMs);
      expect(Math.min(...costs), `${family}: ms, where a good body takes ${goodMs}`).toBeLessThan(limitMs);
    }
  },
  60_000,
);
