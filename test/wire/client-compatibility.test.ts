/** Clients that are newer or older than the service: what they send beyond the contract, and what they make of answers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { create, createFileRegistry, fromBinary, type JsonObject, toBinary, toJson } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, expect, test } from "vitest";
import { EvidenceEventType } from "../../gen/platform/sdk/v1/common_pb.ts";
import {
  type RecordEvidenceRequest,
  RecordEvidenceRequestSchema,
  RecordEvidenceResponseSchema,
} from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { gatewayForFile } from "../harness/gateway.ts";

/** No message of the contract has a field of this number. */
const futureField = 900;
const futureText = "what-a-newer-client-knows";

const gateway = await gatewayForFile();
const token = await gateway.token();
const client = new Client(new URL(gateway.url).host, credentials.createInsecure());
afterAll(() => client.close());

/** Sends the bytes as they are and resolves with the bytes of the answer. */
function recordEvidence(request: Uint8Array): Promise<Uint8Array> {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      "/platform.sdk.v1.EvidenceService/RecordEvidence",
      (bytes: Uint8Array) => Buffer.from(bytes),
      (bytes: Buffer) => new Uint8Array(bytes),
      request,
      metadata,
      (error, answer) => (error === null && answer !== undefined ? resolve(answer) : reject(error)),
    );
  });
}

function sampleEvent(): RecordEvidenceRequest {
  return create(RecordEvidenceRequestSchema, {
    eventType: EvidenceEventType.PROTECT,
    workload: { application: "payroll-export" },
    resource: { kind: "customer-record", id: "cust-8841" },
    labels: ["confidential"],
  });
}

function futureFieldOf(): { no: number; wireType: WireType; data: Uint8Array } {
  const data = new BinaryWriter().string(futureText).finish();
  return { no: futureField, wireType: WireType.LengthDelimited, data };
}

/** The record that an answer's receipt speaks of, as it is stored. */
function recordIn(answer: Uint8Array): { request_digest: string } {
  const { ingestion } = fromBinary(RecordEvidenceResponseSchema, answer);
  expect(ingestion?.accepted).toBe(true);
  return JSON.parse(Buffer.from(ingestion?.receipt?.record ?? "", "base64").toString());
}

test("a field that only a newer client knows is accepted, and not stored", async () => {
  const plain = recordIn(await recordEvidence(toBinary(RecordEvidenceRequestSchema, sampleEvent())));
  const newer = sampleEvent();
  newer.$unknown = [futureFieldOf()];
  if (newer.workload !== undefined) newer.workload.$unknown = [futureFieldOf()];
  const bytes = toBinary(RecordEvidenceRequestSchema, newer);
  // It does go over the wire, at both places.
  expect(Buffer.from(bytes).toString("latin1").split(futureText).length - 1).toBe(2);
  const answer = await recordEvidence(bytes);
  const record = recordIn(answer);
  expect(JSON.stringify(record)).not.toContain(futureText);
  expect(record.request_digest).toBe(plain.request_digest);
  expect(Buffer.from(answer).toString("latin1")).not.toContain(futureText);
  expect(gateway.logged.join()).not.toContain(futureText);
});

test("a client of the published contract reads every member that it knows, with its meaning", async () => {
  const answer = await recordEvidence(toBinary(RecordEvidenceRequestSchema, sampleEvent()));
  const image = readFileSync(join(import.meta.dirname, "../../proto/published.binpb"));
  const published = createFileRegistry(fromBinary(FileDescriptorSetSchema, image)).getMessage(
    RecordEvidenceResponseSchema.typeName,
  );
  if (published === undefined) throw new Error("the published contract has no such message");
  const older = toJson(published, fromBinary(published, answer)) as JsonObject;
  const current = toJson(RecordEvidenceResponseSchema, fromBinary(RecordEvidenceResponseSchema, answer)) as JsonObject;
  expect(Object.keys(older)).toEqual(
    expect.arrayContaining(["service", "status", "caller", "requestSummary", "ingestion"]),
  );
  expect(current).toMatchObject(older);
});
