/** Statements of the index of registrations. */
import { pageBytes } from "../../../ledger/artifacts/registration-index.ts";
import { maxReliedOnBytes } from "../../../ledger/artifacts/registrations.ts";
import { maxRows } from "../../found-registrations.ts";
import type { Row, Statement } from "../connection/connection.ts";
import { visibleOpening } from "../log/log-statements.ts";

export const keyOf: Statement = { name: "artifact_key", text: "SELECT key FROM artifact_keys WHERE tenant_id = $1" };
export const insertKey: Statement = {
  name: "insert_artifact_key",
  text: "INSERT INTO artifact_keys (tenant_id, key) VALUES ($1, $2)",
};
const size = "octet_length(leaf) + octet_length(sealed)";
/**
 * Of each artifact no more than say all that can be known, with whether they have too many bytes for that (`is_cut`).
 * @param asked artifacts with their positions
 * @param tenant whose they are
 */
const relied = (asked: string, tenant: string) => `
  SELECT asked.*, own.*, sum(${size}) OVER (PARTITION BY asked.position) > ${maxReliedOnBytes} AS is_cut
    FROM ${asked}
    CROSS JOIN LATERAL (
      SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
        JOIN registered_artifacts registered
          ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
       WHERE entries.tenant_id = ${tenant} AND registered.tenant_id = ${tenant}
         AND registered.artifact = asked.artifact AND registered.relied_on = 1
       ORDER BY registered.leaf_index LIMIT ${maxRows}) own`;
/** Leaf and record, where they are not left out. */
const unless = (isLeftOut: string) =>
  `CASE WHEN ${isLeftOut} THEN '' ELSE leaf END AS leaf, CASE WHEN ${isLeftOut} THEN '' ELSE sealed END AS sealed`;
/**
 * Rows of whole artifacts, as long as those before them have less than a page. Of the others is said that there are some
 * (`is_later`).
 * @param columns that say whose a row is
 */
export const reliedPage = (columns: string, asked: string, tenant: string) => `
  SELECT ${columns}, leaf_index, record_id, opening, is_cut, is_later, ${unless("is_cut OR is_later")}
    FROM (
      SELECT sized.*, sum(bytes) OVER (ORDER BY position) - sum(bytes) OVER (PARTITION BY position) >= ${pageBytes}
                      AS is_later
        FROM (SELECT *, CASE WHEN is_cut THEN 0 ELSE ${size} END AS bytes FROM (${relied(asked, tenant)}) rows) sized
    ) paged`;
/** Whether the row only says that its artifact has some, which another page brings. */
export function isLater({ is_later }: Row): boolean {
  return is_later === true;
}
export const reliedOn: Statement = {
  name: "registrations",
  text: reliedPage("artifact", "unnest($2::bytea[]) WITH ORDINALITY AS asked (artifact, position)", "$1"),
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
  const look = {
    name: `look_at_registrations_${artifacts}`,
    text: `SELECT size, registered_to, key, found.*
             FROM log_heads
             LEFT JOIN artifact_keys ON artifact_keys.tenant_id = $1
             LEFT JOIN LATERAL (
               SELECT artifact, leaf_index, record_id, opening, is_cut, ${unless("is_cut")}
                 FROM (${relied(`(VALUES ${asked}) AS asked (artifact, position)`, "$1")}) sized) found ON true
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
                        sum(${size}) OVER (ORDER BY entries.leaf_index) AS up_to, ${visibleOpening}
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
