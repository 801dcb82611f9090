/** Statements of the index of registrations. */
import { pageBytes } from "../../../ledger/artifacts/registration-index.ts";
import { maxReliedOnBytes } from "../../../ledger/artifacts/registrations.ts";
import { maxRows } from "../../found-registrations.ts";
import type { Statement } from "../connection/connection.ts";
import { visibleOpening } from "../log/log-statements.ts";

export const keyOf: Statement = { name: "artifact_key", text: "SELECT key FROM artifact_keys WHERE tenant_id = $1" };
export const insertKey: Statement = {
  name: "insert_artifact_key",
  text: "INSERT INTO artifact_keys (tenant_id, key) VALUES ($1, $2)",
};
const sizeSum = "sum(octet_length(leaf) + octet_length(sealed))";
/**
 * Of each artifact no more than say all that can be known. Those that have too many bytes come without leaf and record.
 * @param asked rows of artifacts with their positions
 * @param isCut whether they do, of all rows of an artifact
 */
const reliedOnRows = (asked: string, isCut: string) => `
  SELECT artifact, leaf_index, record_id, opening, is_cut,
         CASE WHEN is_cut THEN '' ELSE leaf END AS leaf, CASE WHEN is_cut THEN '' ELSE sealed END AS sealed
    FROM (
      SELECT asked.artifact, own.*, ${isCut} AS is_cut
        FROM ${asked} AS asked (artifact, position)
        CROSS JOIN LATERAL (
          SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
            JOIN registered_artifacts registered
              ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
           WHERE entries.tenant_id = $1 AND registered.tenant_id = $1
             AND registered.artifact = asked.artifact AND registered.relied_on = 1
           ORDER BY registered.leaf_index LIMIT ${maxRows}) own) sized`;
/** Whole artifacts as long as those before them have less than a page; of the others is said that there are some. */
export const reliedOn: Statement = {
  name: "registrations",
  text: reliedOnRows(
    "unnest($2::bytea[]) WITH ORDINALITY",
    `${sizeSum} OVER (ORDER BY asked.position) - ${sizeSum} OVER (PARTITION BY asked.position) >= ${pageBytes}`,
  ),
};

/**
 * Looks at so many artifacts, each a value of its own: how long an array is the planner does not know ahead, and plans
 * anew at every call, which takes three times as long as the reading. One statement is one snapshot, on whichever node the
 * tenant's rows are.
 */
export function lookAt(artifacts: number): Statement {
  const known = looks.get(artifacts);
  if (known !== undefined) return known;
  const asked = Array.from({ length: artifacts }, (_, position) => `($${position + 2}::bytea, ${position})`).join();
  const isCut = `${sizeSum} OVER (PARTITION BY asked.position) > ${maxReliedOnBytes}`;
  const look = {
    name: `look_at_registrations_${artifacts}`,
    text: `SELECT size, registered_to, key, found.*
             FROM log_heads
             LEFT JOIN artifact_keys ON artifact_keys.tenant_id = $1
             LEFT JOIN LATERAL (${reliedOnRows(`(VALUES ${asked})`, isCut)}) found ON true
            WHERE log_heads.tenant_id = $1`,
  };
  looks.set(artifacts, look);
  return look;
}

/** An artifact has few names, so these are few. */
const looks = new Map<number, Statement>();

/** As many as make a page. */
export const behind: Statement = {
  name: "registrations_behind",
  text: `SELECT leaf_index, record_id, leaf, sealed, opening
           FROM (SELECT entries.leaf_index, record_id, leaf, sealed,
                        ${sizeSum} OVER (ORDER BY entries.leaf_index) AS up_to, ${visibleOpening}
                  WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
                    AND position($4::bytea IN leaf) > 0) missing
          WHERE up_to - octet_length(leaf) - octet_length(sealed) < ${pageBytes}
          ORDER BY leaf_index`,
};
export const addRows: Statement = {
  name: "add_registrations",
  text: `INSERT INTO registered_artifacts (tenant_id, artifact, relied_on, leaf_index)
         SELECT head.tenant_id, row.*
           FROM log_heads head, unnest($2::bytea[], $3::integer[], $4::bigint[]) AS row
          WHERE head.tenant_id = $1`,
};
export const supersede: Statement = {
  name: "supersede_registrations",
  text: `UPDATE registered_artifacts SET relied_on = 0
          WHERE tenant_id = $1 AND relied_on = 1
            AND (artifact, leaf_index) IN (SELECT * FROM unnest($2::bytea[], $3::bigint[]))`,
};
/** Of what was erased nothing but its row says which artifact it was of. */
export const clear: Statement = {
  name: "clear_registrations",
  text: `DELETE FROM registered_artifacts registered
          WHERE tenant_id = $1 AND NOT EXISTS
            (SELECT FROM erasures WHERE erasures.tenant_id = $1 AND erasures.leaf_index = registered.leaf_index)`,
};
export const moveTo: Statement = {
  name: "move_registered_to",
  text: "UPDATE log_heads SET registered_to = $2 WHERE tenant_id = $1",
};
