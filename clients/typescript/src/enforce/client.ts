/** All that local enforcement takes from the client that it is part of. */
import type { Receipt } from "svc-platform-api/client";
import { verifyReceipt as verify } from "svc-platform-api/client/receipts";

export {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  KeyAccessOperation,
  type KeyTransport,
  type Obligation,
  type PlatformClient,
  ProtectionOperation,
  type Receipt,
  ReceiptSchema,
  type ResourceDescriptorSchema,
  WorkloadDescriptorSchema,
} from "svc-platform-api/client";

/** The record that the receipt shows, absent where it is a brief one. Rejects where no key shows it. */
export async function verifyReceipt(
  receipt: Receipt,
  logKeys: readonly string[],
): Promise<{ readonly record?: object }> {
  let failure: unknown = new Error("there is no key");
  for (const key of logKeys) {
    try {
      const { record } = verify(receipt, key);
      return record === undefined ? {} : { record };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
