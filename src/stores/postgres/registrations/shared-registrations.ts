/** Adds to the indexes of registrations of many tenants at once, each of which has all that stands before. */
import type { TenantId } from "../../../base/ids.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import { byArtifact, encodedRegistrations, indexChange } from "../../../ledger/artifacts/registration-index.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import { hexOf, knownRegistration, maxRows, toRegistrationRow } from "../../found-registrations.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { visibleOpening } from "../log/log-statements.ts";

const keysOf: Statement = {
  name: "artifact_keys_of_many",
  text: "SELECT tenant_id, key FROM artifact_keys WHERE tenant_id = ANY ($1)",
};
const insertKeys: Statement = {
  name: "insert_artifact_keys_of_many",
  text: "INSERT INTO artifact_keys (tenant_id, key) SELECT * FROM unnest($1::text[], $2::bytea[])",
};
/** Of each artifact no more than say all that can be known. */
const reliedOn: Statement = {
  name: "registrations_of_many",
  text: `SELECT asked.tenant_id, asked.artifact, own.*
           FROM unnest($1::text[], $2::bytea[]) AS asked (tenant_id, artifact)
           CROSS JOIN LATERAL (
             SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
               JOIN registered_artifacts registered
                 ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
              WHERE entries.tenant_id = asked.tenant_id AND registered.tenant_id = asked.tenant_id
                AND registered.artifact = asked.artifact AND registered.relied_on = 1
              ORDER BY registered.leaf_index LIMIT ${maxRows}) own`,
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
  const [{ rows }] = await Promise.all([
    queries.query(reliedOn, [textArray(asked.map(({ tenantId }) => tenantId)), byteaArray(asked.map(artifactOf))]),
    keyless.length === 0
      ? undefined
      : queries.query(insertKeys, [
          textArray(keyless.map(({ tenantId }) => tenantId)),
          byteaArray(keyless.map(({ freshKey }) => freshKey)),
        ]),
  ]);
  await writeChanges(queries, asked, rows);
}

async function writeChanges(
  queries: Queries,
  asked: readonly (ReturnType<typeof byArtifact>[number] & { readonly tenantId: TenantId; readonly key: Uint8Array })[],
  rows: readonly Row[],
): Promise<void> {
  const nameOf = (tenantId: string, artifact: Uint8Array) => `${hexOf(artifact)} ${tenantId}`;
  const known = Map.groupBy(rows, (row) => nameOf(row.tenant_id as string, row.artifact as Uint8Array));
  const added: { tenantId: TenantId; artifact: Uint8Array; leafIndex: number; isReliedOn: boolean }[] = [];
  const superseded: { tenantId: TenantId; artifact: Uint8Array; leafIndex: number }[] = [];
  for (const { tenantId, key, artifact, fresh } of asked) {
    const relied = (known.get(nameOf(tenantId, artifact)) ?? []).map(toRegistrationRow);
    const change = indexChange(
      relied.map((row) => knownRegistration(key, row)),
      fresh,
    );
    for (const row of change.added) added.push({ tenantId, artifact, ...row });
    for (const leafIndex of change.superseded) superseded.push({ tenantId, artifact, leafIndex });
  }
  const place = (of: readonly { readonly tenantId: TenantId; readonly artifact: Uint8Array }[]) =>
    [textArray(of.map(({ tenantId }) => tenantId)), byteaArray(of.map(artifactOf))] as const;
  const leaves = (of: readonly { readonly leafIndex: number }[]) => bigintArray(of.map(({ leafIndex }) => leafIndex));
  const reliances = integerArray(added.map(({ isReliedOn }) => (isReliedOn ? 1 : 0)));
  await Promise.all([
    superseded.length === 0 ? undefined : queries.query(supersede, [...place(superseded), leaves(superseded)]),
    added.length === 0 ? undefined : queries.query(addRows, [...place(added), reliances, leaves(added)]),
  ]);
}

function artifactOf({ artifact }: { readonly artifact: Uint8Array }): Uint8Array {
  return artifact;
}
