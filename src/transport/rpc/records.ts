/** The services that record, over their domain: evidence and registrations, one by one and in bulk. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { BulkRecordService, EventItem, RegistrationItem } from "../../../gen/platform/bulk/v1/records_pb.ts";
import {
  type EvidenceService,
  type RecordEvidenceRequest,
  RecordEvidenceRequestSchema,
} from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  type RegisterArtifactRequest,
  RegisterArtifactRequestSchema,
  type RegistrationService,
} from "../../../gen/platform/sdk/v1/registration_pb.ts";
import { ServiceError } from "../../base/errors.ts";
import type { DecisionMembers } from "../../domain/answer.ts";
import type { DomainDependencies, RecordingLedger } from "../../domain/deployment.ts";
import { type EvidenceAnswer, recordEvidence } from "../../domain/evidence.ts";
import type { CallIdentity } from "../../domain/record.ts";
import { type RegistrationAnswer, type RegistrationDependencies, registerArtifact } from "../../domain/registration.ts";
import type { EvidenceRequest, RegistrationRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { answerBulk, type BulkDependencies } from "./bulk.ts";
import {
  artifactKind,
  artifactProfile,
  envelope,
  evidenceEventType,
  forMessage,
  identityOf,
  protectionOperation,
  withReceipt,
} from "./messages.ts";

/** The evidence service over its domain. `service` is the name in every answer. */
export function createEvidenceService(
  service: string,
  dependencies: DomainDependencies,
): ServiceImpl<typeof EvidenceService> {
  return {
    async recordEvidence(message, context) {
      const identity = identityOf(context);
      const answer = forMessage(await recordEvidence(dependencies, identity, evidenceRequest(message)));
      const { requestSummary: summary } = answer;
      return {
        ...envelope(service, identity.caller),
        ...answer,
        ingestion: withReceipt(context, answer.ingestion),
        requestSummary: {
          ...summary,
          eventType: evidenceEventType[summary.eventType],
          artifactKind: summary.artifactKind && artifactKind[summary.artifactKind],
          artifactProfile: summary.artifactProfile && artifactProfile[summary.artifactProfile],
        },
      };
    },
  };
}

function evidenceRequest(message: RecordEvidenceRequest): EvidenceRequest {
  return toNormalForm<RecordEvidenceRequest, EvidenceRequest>(RecordEvidenceRequestSchema, message);
}

/** The registration service over its domain. `service` is the name in every answer. */
export function createRegistrationService(
  service: string,
  dependencies: RegistrationDependencies,
): ServiceImpl<typeof RegistrationService> {
  return {
    async registerArtifact(message, context) {
      const identity = identityOf(context);
      const { artifactObjectB64: object } = message;
      const request = registrationRequest(message);
      const answer = forMessage(await registerArtifact(dependencies, identity, request, object, context.signal));
      const { requestSummary: summary } = answer;
      return {
        ...envelope(service, identity.caller),
        ...answer,
        registration: withReceipt(context, answer.registration),
        requestSummary: {
          ...summary,
          operation: protectionOperation[summary.operation],
          artifactKind: summary.artifactKind && artifactKind[summary.artifactKind],
          artifactProfile: artifactProfile[summary.artifactProfile],
        },
      };
    },
  };
}

function registrationRequest(message: RegisterArtifactRequest): RegistrationRequest {
  return toNormalForm<RegisterArtifactRequest, RegistrationRequest, "artifact_object_b64">(
    RegisterArtifactRequestSchema,
    message,
  );
}

/** Items are recorded as on their single routes. */
export type BulkRecordDependencies = RegistrationDependencies & BulkDependencies;

/** The bulk record service over the domain of the single routes. `service` is the name in every answer. */
export function createBulkRecordService(
  service: string,
  dependencies: BulkRecordDependencies,
): ServiceImpl<typeof BulkRecordService> {
  const bulk =
    <Item extends { readonly idempotencyKey: string }, Answer, Members extends { readonly warnings: string[] }>({
      record,
      receiptOf,
      membersOf,
    }: RecordKind<Item, Answer, Members>) =>
    async (_request: unknown, context: HandlerContext) => {
      /** Of the items that were read; their answers repeat them. */
      const keys: string[] = [];
      const { items, ...answer } = await answerBulk(service, dependencies, context, {
        handle(read, identity, ledger, index) {
          const item = read as unknown as Item;
          keys[index] = item.idempotencyKey;
          return record({ ...dependencies, ledger }, identity, item, context.signal);
        },
        receiptOf,
        membersOf,
      });
      return { ...answer, items: items.map((item, i) => ({ ...item, idempotencyKey: keys[i] ?? "" })) };
    };
  return { recordEvents: bulk(events), registerArtifacts: bulk(registrations) };
}

type ItemDependencies = Omit<RegistrationDependencies, "ledger"> & { readonly ledger: RecordingLedger };

/** How one kind of item is recorded and answered, in bulk calls and streams. */
export interface RecordKind<Item, Answer, Members> {
  /**
   * Records an item, in which its rules have found the event or registration, as its single route does, under its
   * idempotency key. Violations name paths in the item.
   */
  readonly record: (
    dependencies: ItemDependencies,
    identity: CallIdentity,
    item: Item,
    signal: AbortSignal,
  ) => Promise<Answer>;
  readonly receiptOf: (answer: Answer) => DecisionMembers["receipt"];
  readonly membersOf: (context: HandlerContext, answer: Answer) => Members;
  /** Bytes of the artifact that an item has, as sent. */
  readonly artifactBytesOf: (item: Item) => number;
}

export const events = {
  record(dependencies: ItemDependencies, identity: CallIdentity, { idempotencyKey, event }: EventItem) {
    const request = evidenceRequest(event as RecordEvidenceRequest);
    return within("event", () => recordEvidence(dependencies, { ...identity, idempotencyKey }, request));
  },
  receiptOf: ({ ingestion }: EvidenceAnswer) => ingestion.receipt,
  membersOf(context: HandlerContext, answer: EvidenceAnswer) {
    const { ingestion, warnings } = forMessage(answer);
    const $typeName = "platform.sdk.v1.Ingestion";
    return { ingestion: { ...withReceipt(context, ingestion), $typeName }, warnings } as const;
  },
  artifactBytesOf: () => 0,
};

export const registrations = {
  record(
    dependencies: ItemDependencies,
    identity: CallIdentity,
    { idempotencyKey, registration }: RegistrationItem,
    signal: AbortSignal,
  ) {
    const { artifactObjectB64: object } = registration as RegisterArtifactRequest;
    const request = registrationRequest(registration as RegisterArtifactRequest);
    return within("registration", () =>
      registerArtifact(dependencies, { ...identity, idempotencyKey }, request, object, signal),
    );
  },
  receiptOf: ({ registration }: RegistrationAnswer) => registration.receipt,
  membersOf(context: HandlerContext, answer: RegistrationAnswer) {
    const { registration, warnings } = forMessage(answer);
    const $typeName = "platform.sdk.v1.Registration";
    return { registration: { ...withReceipt(context, registration), $typeName }, warnings } as const;
  },
  artifactBytesOf: ({ registration }: RegistrationItem) => registration?.artifactObjectB64?.length ?? 0,
};

async function within<T>(member: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (!(thrown instanceof ServiceError) || thrown.details.violations === undefined) throw thrown;
    const violations = thrown.details.violations.map(({ field, ...violation }) => ({
      field: field === "" ? member : `${member}.${field}`,
      ...violation,
    }));
    throw new ServiceError(thrown.reason, thrown.message, { ...thrown.details, violations });
  }
}
