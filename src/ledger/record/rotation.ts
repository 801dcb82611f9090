/** The record that tells a log of a new signing key. */
import type { Clock } from "../../base/clock.ts";
import { newRecordId, type PrincipalId, type RandomFill, type RequestId, type TenantId } from "../../base/ids.ts";
import type { JsonValue } from "../../base/json.ts";
import { formatBase64, parseBase64 } from "../../base/text-forms.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { ErasureStatement } from "./erasure.ts";
import type { AppendableRecord } from "./record.ts";

export interface Rotation {
  /** Public key from now on. 32 bytes, like the other. */
  readonly current: Uint8Array;
  /** The key that signed until now. */
  readonly previous: Uint8Array;
  /** Of whoever rotated; undefined where the key file does not have it. */
  readonly statement?: ErasureStatement | undefined;
  readonly clock: Clock;
  readonly random: RandomFill;
}

export function rotationRecord(tenantId: TenantId, rotation: Rotation): AppendableRecord {
  const { current, previous, statement, clock, random } = rotation;
  const recordId = newRecordId(clock, random);
  const operator = statement?.operator ?? "operator";
  return {
    kind: "key_rotation",
    recordId,
    tenantId,
    requestId: recordId as string as RequestId,
    caller: { principal_id: operator as PrincipalId, subject: operator, auth_source: "operator" },
    route: "keys rotate",
    request: statement === undefined ? {} : { reason: statement.reason },
    outcome: { public_key: formatBase64(current), previous_public_key: formatBase64(previous) },
  };
}

const publicKeyBytes = 32;

/** The keys that a record of kind `key_rotation` names; undefined where it names none. */
export function readRotation({ outcome }: StoredRecord): Pick<Rotation, "current" | "previous"> | undefined {
  const [current, previous] = [readKey(outcome.public_key), readKey(outcome.previous_public_key)];
  return current === undefined || previous === undefined ? undefined : { current, previous };
}

/** The key that a genesis record says to have signed from the beginning; undefined in logs from before it was named. */
export function readFirstKey({ outcome }: StoredRecord): Uint8Array | undefined | "malformed" {
  return outcome.public_key === undefined ? undefined : (readKey(outcome.public_key) ?? "malformed");
}

function readKey(value: JsonValue | undefined): Uint8Array | undefined {
  const bytes = typeof value === "string" ? parseBase64(value) : undefined;
  return bytes?.length === publicKeyBytes ? bytes : undefined;
}
