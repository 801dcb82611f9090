/** Erases again what a backup brought back of records that were erased. */
import type { Queries, Statement } from "./session.ts";
import type { Sessions } from "./sessions.ts";

const returned: Statement = {
  name: "tenants_with_returned_records",
  text: `SELECT DISTINCT tenant_id FROM erasures
          WHERE EXISTS (SELECT FROM openings
                         WHERE openings.tenant_id = erasures.tenant_id AND openings.record_id = erasures.record_id)
             OR EXISTS (SELECT FROM kept_answers
                         WHERE kept_answers.tenant_id = erasures.tenant_id
                           AND kept_answers.leaf_index = erasures.leaf_index AND kept_answers.sealed IS NOT NULL)`,
};
/** Where anything of a tenant has come back, what its erased records are found by may be back too. */
const removals: readonly Statement[] = [
  {
    name: "remove_returned_openings",
    text: `DELETE FROM openings USING erasures
            WHERE openings.tenant_id = $1 AND erasures.tenant_id = $1 AND openings.record_id = erasures.record_id`,
  },
  {
    name: "remove_returned_answers",
    text: `UPDATE kept_answers SET sealed = NULL FROM erasures
            WHERE kept_answers.tenant_id = $1 AND erasures.tenant_id = $1
              AND kept_answers.leaf_index = erasures.leaf_index`,
  },
  {
    name: "remove_returned_terms",
    text: `DELETE FROM search_terms USING erasures
            WHERE search_terms.tenant_id = $1 AND erasures.tenant_id = $1
              AND search_terms.block = erasures.leaf_index / 1024 AND search_terms.leaf_index = erasures.leaf_index`,
  },
];

/**
 * Removes what came back, before anything is read or served. Writes only where there is something to remove. Rejects
 * with an error of the driver where that cannot be done: then nothing may be shown.
 */
export async function reapplyErasures(sessions: Sessions): Promise<void> {
  for (const { tenant_id } of (await sessions.query(returned, [])).rows)
    await sessions.retrying(() => sessions.transaction((session) => removeReturned(session, tenant_id as string)));
}

async function removeReturned(queries: Queries, tenantId: string): Promise<void> {
  await Promise.all(removals.map((statement) => queries.query(statement, [tenantId])));
}
