/** Requests whose JSON cannot be read: every fault is named at once, on the JSON routes and in canonical JSON. */
import { gzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { BadRequestSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();

type Named = readonly (readonly [field: string, rule: string])[];

async function onRest(body: string, route = "protection-plan"): Promise<Named> {
  const answer = await rest(`${gateway.url}/v1/sdk/${route}`, { token, body });
  expect(answer).toMatchObject({ status: 400, body: { error: { reason: "invalid_request" } } });
  return answer.body.error.violations.map(({ field, rule }: Record<string, string>) => [field, rule]);
}

async function onConnect(body: string | Buffer, headers: Record<string, string> = {}): Promise<Named> {
  const response = await fetch(`${gateway.url}/platform.sdk.v1.ProtectionService/PlanProtection`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : new Uint8Array(body),
  });
  const answer = (await response.json()) as { code: string; details: { type: string; value: string }[] };
  expect([response.status, answer.code]).toEqual([400, "invalid_argument"]);
  const detail = answer.details.find(({ type }) => type === "google.rpc.BadRequest");
  return named(fromBinary(BadRequestSchema, Buffer.from(detail?.value ?? "", "base64")));
}

function named({ fieldViolations }: { fieldViolations: { field: string; reason: string }[] }): Named {
  return fieldViolations.map(({ field, reason }) => [field, reason]);
}

test.each([
  [1, "labels[0]: must be a string"],
  [2, "labels[0]: must be a string (and 1 more problem)"],
  [5, "labels[0]: must be a string (and 4 more problems)"],
  // As many are answered, and looking ends with them.
  [60, "labels[0]: must be a string (and at least 31 more problems)"],
])("of %i faults, the message names the first and counts the others", async (count, message) => {
  const labels = Array.from({ length: count }, () => 1);
  const body = { operation: "protect", workload: { application: "a" }, resource: { kind: "k" }, labels };
  const answer = await rest(`${gateway.url}/v1/sdk/protection-plan`, { token, body });
  expect(answer.body.error).toMatchObject({ reason: "invalid_request", message });
});

describe("the JSON routes name every fault, in the order of the body", () => {
  test.each<[string, string, Named]>([
    [
      "JSON faults beside rules",
      '{"operation":"PROTECT","workload":{"application":"","plaintext":1},"purpose":7,"labels":["a",3]}',
      [
        ["operation", "enum.defined_only"],
        ["workload.application", "string.min_len"],
        ["workload.plaintext", "json.unknown_field"],
        ["purpose", "json.type"],
        ["labels[1]", "json.type"],
        ["resource", "required"],
      ],
    ],
    ["no object", "[]", [["", "json.type"]]],
  ])("%s", async (_name, body, expected) => {
    expect(await onRest(body)).toEqual(expected);
  });

  test("more items than one turn may read are refused by their number", async () => {
    const body = `{"labels":[${"1,".repeat(1_000_000)}1]}`;
    expect(await onRest(body, "artifact-register")).toEqual([["labels", "repeated.max_items"]]);
    expect(await onRest("[".repeat(1_000_000), "artifact-register")).toEqual([["", "json.max_items"]]);
  });
});

describe("canonical JSON is refused with the same details", () => {
  const faulty =
    '{"operation":"PROTECTION_OPERATION_NOTHING","workload":{"application":"","clientSecret":"x"},"purpose":1,' +
    '"preferredArtifactProfile":1,"preferred_artifact_profile":1,"contentSizeBytes":"many"}';
  const expected: Named = [
    ["operation", "enum.defined_only"],
    ["workload.application", "string.min_len"],
    ["workload.clientSecret", "json.unknown_field"],
    ["purpose", "json.type"],
    ["preferred_artifact_profile", "json.duplicate_member"],
    ["content_size_bytes", "json.type"],
    ["resource", "required"],
  ];

  test("on Connect, compressed or not", async () => {
    expect(await onConnect(faulty)).toEqual(expected);
    expect(await onConnect(gzipSync(faulty), { "content-encoding": "gzip" })).toEqual(expected);
  });

  test("refuses a duplicate member, and text that is no JSON", async () => {
    const twice = '{"operation":1,"workload":{"application":"a"},"resource":{"kind":"k"},"purpose":"a","purpose":"b"}';
    expect(await onConnect(twice)).toEqual([["purpose", "json.duplicate_member"]]);
    expect(await onConnect("{")).toEqual([["", "json.syntax"]]);
    expect(await onConnect(Buffer.from('{"purpose":"\xff"}', "latin1"))).toEqual([["", "json.utf8"]]);
  });

  test.each(["json", "proto"])("refuses the query of a GET that is not base64, %s", async (encoding) => {
    const query = new URLSearchParams({ encoding, base64: "1", message: "!!!" });
    const url = `${gateway.url}/platform.sdk.v1.DiscoveryService/WhoAmI?${query}`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    const { message } = (await response.json()) as { message: string };
    expect([response.status, message]).toEqual([400, "message is not base64"]);
  });
});
