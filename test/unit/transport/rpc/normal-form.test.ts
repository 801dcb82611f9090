import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { EvidenceEventType } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import { RecordEvidenceRequestSchema } from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import { PlanProtectionResponseSchema } from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { CreateSessionRequestSchema } from "../../../../gen/platform/sdk/v1/session_pb.ts";
import { convertMessage } from "../../../../src/transport/codec/normal-form.ts";

test("secrets have no normal form", () => {
  const message = create(CreateSessionRequestSchema, { tenantId: "t", clientId: "c", clientSecret: "s" });
  const form = convertMessage(CreateSessionRequestSchema, message);
  expect(form).toEqual({ tenant_id: "t", client_id: "c", requested_scopes: [] });
});

test("an attribute may have any name", () => {
  const message = create(RecordEvidenceRequestSchema, { eventType: 1 });
  Object.defineProperty(message.attributes, "__proto__", { value: "v", enumerable: true });
  const { attributes } = convertMessage(RecordEvidenceRequestSchema, message);
  expect(Object.entries(attributes as object)).toEqual([["__proto__", "v"]]);
});

test("what no request has is refused, not guessed at", () => {
  const answer = create(PlanProtectionResponseSchema, {});
  expect(() => convertMessage(PlanProtectionResponseSchema, answer)).toThrow(TypeError);
  const message = create(RecordEvidenceRequestSchema, { eventType: 99 as EvidenceEventType });
  expect(() => convertMessage(RecordEvidenceRequestSchema, message)).toThrow(TypeError);
});
