import type { DescMessage, Message } from "@bufbuild/protobuf";
import { type RecordEvidenceRequest, RecordEvidenceRequestSchema } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import type { Violation } from "../../base/errors.ts";
import { occurredAtViolations } from "../../domain/evidence.ts";

/**
 * What the handlers refuse of a request's forms, for a request that the rules refuse already: so that one answer names
 * all that is wrong. A request that passes the rules meets the handlers' own checks.
 */
export function formViolations(desc: DescMessage, message: Message): readonly Violation[] {
  if (desc.typeName !== RecordEvidenceRequestSchema.typeName) return [];
  return occurredAtViolations((message as RecordEvidenceRequest).occurredAt);
}
