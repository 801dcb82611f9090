/** Adds to the indexes of registrations of many tenants at once, each of which has all that stands before. */
import type { TenantId } from "../../../base/ids.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import {
  byArtifact,
  encodedRegistrations,
  type FreshRegistrations,
  indexChange,
} from "../../../ledger/artifacts/registration-index.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import { hexOf, knownRegistration, toRegistrationRow } from "../../found-registrations.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { isLater, reliedPage } from "./registration-statements.ts";

const keysOf: Statement = {
  name: "artifact_keys_of_many",
  text: "SELECT tenant_id, key FROM artifact_keys WHERE tenant_id = ANY ($1)",
};
const insertKeys: Statement = {
  name: "insert_artifact_keys_of_many",
  text: "INSERT INTO artifact_keys (tenant_id, key) SELECT * FROM unnest($1::text[], $2::bytea[])",
};
const reliedOn: Statement = {
  name: "registrations_of_many",
  text: reliedPage(
    "tenant_id, artifact",
    "unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS asked (tenant_id, artifact, position)",
    "asked.tenant_id",
  ),
};
const addRows: Statement = {
  name: "add_registrations_of_many",
  text: `INSERT INTO registered_artifacts (tenant_id, artifact, relied_on, leaf_index)
         SELECT * FROM unnest($1::text[], $2::bytea[], $3::integer[], $4::bigint[])`,
};
const supersede: Statement = {
  name: "supersede_registrations_of_many",
  text: `UPDATE registered_artifacts SET relied_on = 0
          WHERE relied_on = 1
            AND (tenant_id, artifact, leaf_index) IN (SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[]))`,
};

/** What a tenant's batch may register. */
export interface SharedRegistrations {
  readonly tenantId: TenantId;
  readonly records: readonly EncodedRecord[];
  readonly sequenced: Pick<Sequenced, "firstLeafIndex" | "artifactKey">;
}

/** Under the locks of the tenants' heads. */
export async function writeRegistrationsOfMany(queries: Queries, parts: readonly SharedRegistrations[]): Promise<void> {
  const registering = parts
    .map(({ tenantId, records, sequenced }) => {
      const registrations = encodedRegistrations(records, sequenced.firstLeafIndex);
      return { tenantId, registrations, freshKey: sequenced.artifactKey };
    })
    .filter(({ registrations }) => registrations.some(({ size }) => size > 0));
  if (registering.length === 0) return;
  const { rows: keyRows } = await queries.query(keysOf, [textArray(registering.map(({ tenantId }) => tenantId))]);
  const keys = new Map(keyRows.map(({ tenant_id, key }) => [tenant_id as TenantId, key as Uint8Array]));
  const keyless = registering.filter(({ tenantId }) => !keys.has(tenantId));
  const asked = registering.flatMap(({ tenantId, registrations, freshKey }) => {
    const key = keys.get(tenantId) ?? freshKey;
    return byArtifact(key, registrations).map((own) => ({ tenantId, key, ...own }));
  });
  if (keyless.length > 0) {
    const freshKeys = keyless.map(({ freshKey }) => freshKey);
    await queries.query(insertKeys, [textArray(keyless.map(({ tenantId }) => tenantId)), byteaArray(freshKeys)]);
  }
  for (let pending: readonly Asked[] = asked; pending.length > 0; ) pending = await writePage(queries, pending);
}

/** What a tenant's batch registers of one artifact. */
type Asked = FreshRegistrations & { readonly tenantId: TenantId; readonly key: Uint8Array };

/** Writes what changes of some of the artifacts. Resolves with the others. */
async function writePage(queries: Queries, pending: readonly Asked[]): Promise<readonly Asked[]> {
  const { rows } = await queries.query(reliedOn, place(pending));
  const nameOf = (tenantId: string, artifact: Uint8Array) => `${hexOf(artifact)} ${tenantId}`;
  const nameOfRow = (row: Row) => nameOf(row.tenant_id as string, row.artifact as Uint8Array);
  const known = Map.groupBy(rows, nameOfRow);
  const later = new Set(rows.filter(isLater).map(nameOfRow));
  const waits = ({ tenantId, artifact }: Asked) => later.has(nameOf(tenantId, artifact));
  const added: { tenantId: TenantId; artifact: Uint8Array; leafIndex: number; isReliedOn: boolean }[] = [];
  const superseded: { tenantId: TenantId; artifact: Uint8Array; leafIndex: number }[] = [];
  for (const { tenantId, key, artifact, fresh } of pending.filter((one) => !waits(one))) {
    const relied = (known.get(nameOf(tenantId, artifact)) ?? []).map(toRegistrationRow);
    const change = indexChange(
      relied.map((row) => knownRegistration(key, row)),
      fresh,
    );
    for (const row of change.added) added.push({ tenantId, artifact, ...row });
    for (const leafIndex of change.superseded) superseded.push({ tenantId, artifact, leafIndex });
  }
  const leaves = (of: readonly { readonly leafIndex: number }[]) => bigintArray(of.map(({ leafIndex }) => leafIndex));
  const reliances = integerArray(added.map(({ isReliedOn }) => (isReliedOn ? 1 : 0)));
  await Promise.all([
    superseded.length === 0 ? undefined : queries.query(supersede, [...place(superseded), leaves(superseded)]),
    added.length === 0 ? undefined : queries.query(addRows, [...place(added), reliances, leaves(added)]),
  ]);
  return pending.filter(waits);
}

/** Tenants and artifacts, as parameters. */
function place(of: readonly { readonly tenantId: TenantId; readonly artifact: Uint8Array }[]) {
  return [textArray(of.map(({ tenantId }) => tenantId)), byteaArray(of.map(({ artifact }) => artifact))] as const;
}
