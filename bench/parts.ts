/**
 * Processor time of our own code beside a library that does the same, in one run: keys of a record, text of an answer,
 * and the reading of a JSON body. `node bench/parts.ts`.
 */
import { hkdfSync, randomBytes } from "node:crypto";
import { create, type DescMessage, fromJsonString, type Message, ScalarType } from "@bufbuild/protobuf";
import fastJsonStringify from "fast-json-stringify";
import { createRestRegistry, messageEncoder } from "../dev/rest-json.ts";
import { PlanProtectionRequestSchema, PlanProtectionResponseSchema } from "../gen/platform/sdk/v1/protection_pb.ts";
import { deriveKeys } from "../src/ledger/record/sealing.ts";
import { publicServices } from "../src/transport/calls/methods.ts";
import { readJson } from "../src/transport/codec/json-reader.ts";
import { answerEncoder, toByteText } from "../src/transport/rest/answer.ts";
import { printTable } from "./run.ts";

const rounds = 12;
const roundMs = 150;

/** Processor time of each way in µs, the minimum over the rounds. */
function measure(part: string, ways: Readonly<Record<string, () => unknown>>): void {
  const leastUs: Record<string, number> = {};
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of Object.entries(ways)) {
      const begun = process.cpuUsage();
      let turns = 0;
      for (const end = performance.now() + roundMs; performance.now() < end; turns++) run();
      const { user, system } = process.cpuUsage(begun);
      leastUs[name] = Math.min(leastUs[name] ?? Number.POSITIVE_INFINITY, (user + system) / turns);
    }
  }
  const row = Object.entries(leastUs).map(([name, us]) => [name, Number(us.toFixed(1))]);
  rows.push({ part, ...Object.fromEntries(row) });
}

const rows: Record<string, unknown>[] = [];
const registry = createRestRegistry(publicServices.flatMap(({ file }) => [file, ...file.dependencies]));

const infos = ["platform-ledger/v1/commitment", "platform-ledger/v1/seal"].map((info) => Buffer.from(info));
const opening = randomBytes(32);
measure("two keys of a record", {
  own: () => deriveKeys(opening, infos),
  library: () => infos.map((info) => hkdfSync("sha256", opening, "", info, 32)),
});

/** An answer as large as one with a full receipt. */
function sampleOf(desc: DescMessage): Message {
  const texts: Readonly<Record<string, string>> = {
    proof: `${"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ=\n".repeat(20)}\n— ${"A".repeat(92)}\n`,
    record: "QUJD".repeat(300),
    leaf: "QUJD".repeat(70),
  };
  const members = desc.fields.map((field) => {
    if (field.fieldKind === "message") return [field.localName, sampleOf(field.message)];
    if (field.fieldKind === "enum") return [field.localName, field.enum.values.at(-1)?.number];
    if (field.fieldKind === "list")
      return [field.localName, field.message ? [sampleOf(field.message)] : ["artifact_digest", "decision_id"]];
    if (field.scalar === ScalarType.STRING) return [field.localName, texts[field.name] ?? "an ordinary text"];
    return [field.localName, field.scalar === ScalarType.BOOL ? true : field.scalar === ScalarType.INT64 ? 1234n : 7];
  });
  return create(desc, Object.fromEntries(members));
}

/** A schema for fast-json-stringify, which writes objects, so that an answer has to be converted to one first. */
function schemaOf(value: unknown): object {
  if (Array.isArray(value)) return { type: "array", items: schemaOf(value[0]) };
  if (typeof value !== "object" || value === null) return { type: typeof value };
  return {
    type: "object",
    properties: Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, schemaOf(inner)])),
  };
}

const answerDesc = registry.message(PlanProtectionResponseSchema);
const answer = sampleOf(answerDesc);
const [own, general] = [answerEncoder(PlanProtectionResponseSchema), messageEncoder(answerDesc)];
const object: unknown = JSON.parse(general(answer));
const stringify = fastJsonStringify(schemaOf(object));
measure("an answer as text", {
  own: () => own(answer),
  library: () => toByteText(general(answer)),
  "library, of an object": () => toByteText(stringify(object)),
});

/** Reads a body that may be refused. */
function attempt(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    return error;
  }
}

const requestDesc = registry.message(PlanProtectionRequestSchema);
const described = { operation: "protect", workload: { application: "payroll" }, resource: { kind: "record" } };
const entries = Array.from({ length: 64 }, (_, index) => [`key-${index}`, "v".repeat(256)]);
for (const [name, text] of Object.entries({
  "an ordinary request": JSON.stringify({ ...described, labels: ["a", "b"], attributes: { region: "eu" } }, null, 1),
  "a large request": JSON.stringify({ ...described, attributes: Object.fromEntries(entries) }),
  "192 KiB in one text": JSON.stringify({ purpose: "x".repeat(192 * 1024) }),
  "192 KiB of brackets": "[".repeat(192 * 1024),
  "192 KiB of digits": `{"a":${"1".repeat(192 * 1024)}}`,
}))
  measure(`reading ${name}`, {
    own: () => attempt(() => readJson(PlanProtectionRequestSchema, text, "rest")),
    library: () => attempt(() => fromJsonString(requestDesc, text)),
  });

printTable(rows);
