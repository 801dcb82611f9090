import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { BulkRecordService, EventItem, RegistrationItem } from "../../../gen/platform/bulk/v1/records_pb.ts";
import { ServiceError } from "../../base/errors.ts";
import type { BulkLedger } from "../../domain/bulk.ts";
import type { RecordingLedger } from "../../domain/deployment.ts";
import { createEvidence, type EvidenceAnswer } from "../../domain/evidence.ts";
import { platformDomains } from "../../domain/platform-domains.ts";
import type { ProvingLedger } from "../../domain/range.ts";
import type { CallIdentity } from "../../domain/record.ts";
import {
  createRegistrations,
  type RegistrationAnswer,
  type RegistrationDependencies,
} from "../../domain/registration.ts";
import { callerOf } from "../calls/call.ts";
import { handleItems, inTurns, itemMembers } from "./bulk.ts";
import { evidenceRequest } from "./evidence.ts";
import { envelope, forMessage, platformDomainMessages, withReceipt } from "./messages.ts";
import { rangeMembers } from "./range.ts";
import { registrationRequest } from "./registration.ts";

/** Items are recorded as on their single routes. */
export type BulkRecordDependencies = RegistrationDependencies & { readonly ledger: BulkLedger & ProvingLedger };

/** The bulk record service over the domain of the single routes. `service` is the name in every answer. */
export function createBulkRecordService(
  service: string,
  dependencies: BulkRecordDependencies,
): ServiceImpl<typeof BulkRecordService> {
  const { ledger, live } = dependencies;
  const head = (context: HandlerContext) => ({
    ...envelope(service, callerOf(context)),
    platformDomains: platformDomainMessages(platformDomains(live, callerOf(context).tenantId)),
  });
  return {
    async recordEvents(_request, context) {
      const keys: string[] = [];
      const results = await handleItems(context, ledger, (item, identity, own, index) => {
        const event = item as EventItem;
        keys[index] = event.idempotencyKey;
        return recordEvent({ ...dependencies, ledger: own }, identity, event);
      });
      const { leaves, receipt } = await rangeMembers(context, ledger, results, ({ ingestion }) => ingestion.receipt);
      const items = await inTurns(results, (result, i) => ({
        ...itemMembers(result, (answer) => eventMembers(context, answer)),
        idempotencyKey: keys[i] ?? "",
        leaf: leaves[i],
        $typeName: "platform.bulk.v1.EventResult" as const,
      }));
      return { ...head(context), items, receipt };
    },
    async registerArtifacts(_request, context) {
      const keys: string[] = [];
      const results = await handleItems(context, ledger, (item, identity, own, index) => {
        const registration = item as RegistrationItem;
        keys[index] = registration.idempotencyKey;
        return register({ ...dependencies, ledger: own }, identity, registration, context.signal);
      });
      const { leaves, receipt } = await rangeMembers(
        context,
        ledger,
        results,
        ({ registration }) => registration.receipt,
      );
      const items = await inTurns(results, (result, i) => ({
        ...itemMembers(result, (answer) => registrationMembers(context, answer)),
        idempotencyKey: keys[i] ?? "",
        leaf: leaves[i],
        $typeName: "platform.bulk.v1.RegistrationResult" as const,
      }));
      return { ...head(context), items, receipt };
    },
  };
}

type ItemDependencies = Omit<RegistrationDependencies, "ledger"> & { readonly ledger: RecordingLedger };

/** Records one event as its single route does, under its idempotency key. Violations name paths in the item. */
export async function recordEvent(
  dependencies: ItemDependencies,
  identity: CallIdentity,
  { idempotencyKey, event }: EventItem,
): Promise<EvidenceAnswer> {
  if (event === undefined) throw notThere("event");
  const evidence = createEvidence(dependencies);
  return within("event", () => evidence.record({ ...identity, idempotencyKey }, evidenceRequest(event)));
}

export async function register(
  dependencies: ItemDependencies,
  identity: CallIdentity,
  { idempotencyKey, registration }: RegistrationItem,
  signal: AbortSignal,
): Promise<RegistrationAnswer> {
  if (registration === undefined) throw notThere("registration");
  const registrations = createRegistrations(dependencies);
  const { artifactObjectB64: object } = registration;
  return within("registration", () =>
    registrations.register({ ...identity, idempotencyKey }, registrationRequest(registration), object, signal),
  );
}

export function eventMembers(context: HandlerContext, answer: EvidenceAnswer) {
  const { ingestion, warnings } = forMessage(answer);
  const $typeName = "platform.sdk.v1.Ingestion";
  return { ingestion: { ...withReceipt(context, ingestion), $typeName }, warnings } as const;
}

export function registrationMembers(context: HandlerContext, answer: RegistrationAnswer) {
  const { registration, warnings } = forMessage(answer);
  const $typeName = "platform.sdk.v1.Registration";
  return { registration: { ...withReceipt(context, registration), $typeName }, warnings } as const;
}

/** Programming error: the rules of the item require the member. */
function notThere(member: string): ServiceError {
  return new ServiceError("internal", `item without ${member}`);
}

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
