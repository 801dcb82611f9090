import { create, fromJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { EvidenceEventType } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import { RecordEvidenceRequestSchema } from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  PlanProtectionRequestSchema,
  PlanProtectionResponseSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegisterArtifactRequestSchema } from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { CreateSessionRequestSchema } from "../../../../gen/platform/sdk/v1/session_pb.ts";
import { convertMessage } from "../../../../src/transport/codec/normal-form.ts";

const full = {
  operation: "PROTECTION_OPERATION_PROTECT",
  workload: { application: "a", environment: "e", component: "c" },
  resource: { kind: "k", id: "i", mime_type: "text/plain" },
  artifact_kind: "ARTIFACT_KIND_TDF_MANIFEST",
  artifact_profile: "ARTIFACT_PROFILE_DETACHED_SIGNATURE",
  artifact_digest: "sha256:x",
  artifact_cid: "cid",
  artifact_merkle_root_cid: "root",
  artifact_object_b64: "AAAA",
  artifact_locator: "s3://b/k",
  decision_id: "d",
  key_reference: "kms://k",
  purpose: "p",
  labels: ["l"],
  attributes: { a: "1" },
};

test("every member under its proto name, words for enumerations, and never the object", () => {
  const message = fromJson(RegisterArtifactRequestSchema, full);
  const { artifact_object_b64: _, ...others } = full;
  expect(convertMessage(RegisterArtifactRequestSchema, message)).toEqual({
    ...others,
    operation: "protect",
    artifact_kind: "tdf_manifest",
    artifact_profile: "detached_signature",
  });
});

test("secrets have no normal form", () => {
  const message = create(CreateSessionRequestSchema, { tenantId: "t", clientId: "c", clientSecret: "s" });
  const form = convertMessage(CreateSessionRequestSchema, message);
  expect(form).toEqual({ tenant_id: "t", client_id: "c", requested_scopes: [] });
});

test("absent members are absent; lists and maps are there", () => {
  const message = create(RecordEvidenceRequestSchema, {
    eventType: EvidenceEventType.DENY,
    workload: { application: "a" },
    resource: { kind: "k" },
    outcome: undefined,
  });
  const form = convertMessage(RecordEvidenceRequestSchema, message);
  const expected = {
    event_type: "deny",
    workload: { application: "a" },
    resource: { kind: "k" },
    labels: [],
    attributes: {},
  };
  expect(JSON.parse(JSON.stringify(form))).toEqual(expected);
  expect(Object.keys(form).sort()).toEqual(Object.keys(expected).sort());
});

test.each([0n, 42n, 2n ** 53n - 1n])("%s bytes are the number", (contentSizeBytes) => {
  const form = convertMessage(
    PlanProtectionRequestSchema,
    create(PlanProtectionRequestSchema, { contentSizeBytes, operation: 1 }),
  );
  expect(form.content_size_bytes).toBe(Number(contentSizeBytes));
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
