/** Bulk calls, and resuming streams, of a service that has them (`platform.bulk.v1`). */
import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { BulkDecisionService } from "../../../gen/platform/bulk/v1/decisions_pb.ts";
import {
  BulkRecordService,
  type EventItem,
  EventItemSchema,
  type EventResult,
  type RegistrationItem,
  RegistrationItemSchema,
  type RegistrationResult,
} from "../../../gen/platform/bulk/v1/records_pb.ts";
import { BulkStreamService } from "../../../gen/platform/bulk/v1/streams_pb.ts";
import type { RecordEvidenceRequestSchema } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import type { RegisterArtifactRequestSchema } from "../../../gen/platform/sdk/v1/registration_pb.ts";
import { openStream, type ResumingStream, type StreamKind, type StreamOptions } from "./bulk/resuming-stream.ts";
import type { ClientOptions } from "./client.ts";
import { withDeadline } from "./deadline.ts";

export * from "../../../gen/platform/bulk/v1/common_pb.ts";
export * from "../../../gen/platform/bulk/v1/decisions_pb.ts";
export * from "../../../gen/platform/bulk/v1/records_pb.ts";
export * from "../../../gen/platform/bulk/v1/streams_pb.ts";
export type { OutboxOptions, Sent } from "./bulk/outbox.ts";
export type { ResumingStream, StreamOptions } from "./bulk/resuming-stream.ts";

export type EventStream = ResumingStream<typeof RecordEvidenceRequestSchema, EventItem, EventResult>;
export type RegistrationStream = ResumingStream<
  typeof RegisterArtifactRequestSchema,
  RegistrationItem,
  RegistrationResult
>;

/**
 * Up to 1,000 items in one call, each answered as its single call is; the service refuses more. Each call takes a
 * request and `{ signal, timeoutMs, headers }`.
 */
export interface BulkClient extends Client<typeof BulkDecisionService>, Client<typeof BulkRecordService> {
  /** A resuming stream of events; over gRPC only. */
  openEventStream(options?: StreamOptions): EventStream;
  /** The same for registrations. */
  openRegistrationStream(options?: StreamOptions): RegistrationStream;
}

/** Creates the client over any transport; calls reject with a `PlatformError`. */
export function createBulkClient(
  transport: Transport,
  { deadlineMs = 10_000 }: Pick<ClientOptions, "deadlineMs"> = {},
): BulkClient {
  const bounded = withDeadline(transport, deadlineMs);
  return {
    ...createClient(BulkDecisionService, bounded),
    ...createClient(BulkRecordService, bounded),
    openEventStream: (options) => openStream(transport, events, options),
    openRegistrationStream: (options) => openStream(transport, registrations, options),
  };
}

// Items are copied: later changes by the program are not sent.
const events: StreamKind<typeof RecordEvidenceRequestSchema, EventItem> = {
  method: BulkStreamService.method.streamEvents,
  itemOf: (idempotencyKey, event) => clone(EventItemSchema, create(EventItemSchema, { idempotencyKey, event })),
};

const registrations: StreamKind<typeof RegisterArtifactRequestSchema, RegistrationItem> = {
  method: BulkStreamService.method.streamRegistrations,
  itemOf: (idempotencyKey, registration: MessageInitShape<typeof RegisterArtifactRequestSchema>) =>
    clone(RegistrationItemSchema, create(RegistrationItemSchema, { idempotencyKey, registration })),
};
