/** The record that says that the operator vouched for a log whose anchor was lost. */
import type { Clock } from "../../base/clock.ts";
import { newRecordId, type PrincipalId, type RandomFill, type RequestId, type TenantId } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { StoredTree } from "../ports/store.ts";
import type { ErasureStatement } from "./erasure.ts";
import type { AppendableRecord } from "./record.ts";

/** What was adopted: nothing outside the store said any more that it was the newest state of the log. */
export interface Adoption extends StoredTree, ErasureStatement {
  readonly tenantId: TenantId;
  readonly clock: Clock;
  readonly random: RandomFill;
}

export function adoptionRecord({ tenantId, size, root, reason, operator, clock, random }: Adoption): AppendableRecord {
  const recordId = newRecordId(clock, random);
  return {
    kind: "anchor_adoption",
    recordId,
    tenantId,
    requestId: recordId as string as RequestId,
    caller: { principal_id: operator as PrincipalId, subject: operator, auth_source: "operator" },
    route: "ledger anchor adopt",
    request: { reason },
    outcome: { tree_size: size, root: formatBase64(root) },
  };
}
