/** What each protocol makes of a request body before the handler sees it. */
import type { Message } from "@bufbuild/protobuf";
import { invalidRequests, ServiceError } from "../../src/base/errors.ts";
import { readBinary } from "../../src/transport/codec/binary-records.ts";
import { readJson } from "../../src/transport/codec/json-reader.ts";
import { rulesOf } from "../../src/transport/codec/rules.ts";
import type { WireMethod } from "./methods.ts";

/** The JSON of the JSON routes, canonical JSON, and protobuf. */
export type Spelling = "rest" | "canonical" | "binary";

const reads: Readonly<Record<Spelling, (method: WireMethod, body: Buffer) => Message>> = {
  rest: ({ desc }, body) => readJson(desc.input, body, "rest"),
  canonical: ({ desc: { input } }, body) => readJson(input, body, "canonical"),
  binary: ({ desc: { input } }, body) => readBinary(input, body),
};

/** The refusal of a body; undefined for that of a good request. */
export function refusalOf(spelling: Spelling, method: WireMethod, body: Buffer): ServiceError | undefined {
  try {
    const violations = rulesOf(method.desc.input)(reads[spelling](method, body));
    return violations.length === 0 ? undefined : invalidRequests(violations);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Processor time that the work takes, in milliseconds. */
export function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
