/** The tables and columns that every kind of store has; `store copy` carries all of them over. */

/** Type of a column in PostgreSQL. */
export type ColumnType = "text" | "bytea" | "integer" | "bigint";

export interface Table {
  readonly name: string;
  /** If the first column is the tenant, the key starts with it too. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly key: readonly string[];
  /** Column with the expiry, in milliseconds since the Unix epoch; a copy skips expired rows. */
  readonly expiry?: string;
  /** What happens to an existing row; undefined: an error. */
  readonly onConflict?: string;
}

/** A table of tenants' rows. */
function table(
  name: string,
  key: readonly string[],
  columns: Table["columns"],
  more: Pick<Table, "expiry" | "onConflict"> = {},
): Table {
  return { name, columns: { tenant_id: "text", ...columns }, key: ["tenant_id", ...key], ...more };
}

/** Rows of tenants. */
export const tables = {
  entries: table("entries", ["leaf_index"], {
    leaf_index: "bigint",
    record_id: "text",
    leaf: "bytea",
    sealed: "bytea",
  }),
  openings: table("openings", ["record_id"], { record_id: "text", opening: "bytea" }),
  tiles: table(
    "tiles",
    ["level", "tile_index"],
    { level: "integer", tile_index: "bigint", hashes: "bytea" },
    // A partial tile is written again, longer, with the same prefix.
    { onConflict: "ON CONFLICT (tenant_id, level, tile_index) DO UPDATE SET hashes = excluded.hashes" },
  ),
  keptAnswers: table("kept_answers", ["scope"], {
    scope: "bytea",
    leaf_index: "bigint",
    tree_size: "bigint",
    kept_at_ms: "bigint",
    sealed: "bytea",
  }),
  erasures: table("erasures", ["record_id"], { record_id: "text", leaf_index: "bigint", erasure_leaf_index: "bigint" }),
  legalHolds: table("legal_holds", ["record_id"], { record_id: "text", reason: "text", placed_at_ms: "bigint" }),
  searchKeys: table("search_keys", ["generation"], {
    generation: "integer",
    key: "bytea",
    filled_to: "bigint",
    serves: "integer",
  }),
  searchSegments: table("search_segments", ["first_leaf", "generation"], {
    first_leaf: "bigint",
    generation: "integer",
    end_leaf: "bigint",
    terms: "bytea",
  }),
  artifactKeys: table("artifact_keys", [], { key: "bytea" }),
  registeredArtifacts: table("registered_artifacts", ["artifact", "relied_on", "leaf_index"], {
    artifact: "bytea",
    relied_on: "integer",
    leaf_index: "bigint",
  }),
  cosignatures: table("cosignatures", ["witness", "key_id"], {
    witness: "text",
    key_id: "text",
    size: "bigint",
    root: "bytea",
    line: "text",
  }),
  proofUses: table("proof_uses", ["proof"], { proof: "text", expires_at_ms: "bigint" }, { expiry: "expires_at_ms" }),
  attempts: table(
    "attempts",
    ["counter"],
    { counter: "text", taken: "integer", window_ends_at_ms: "bigint" },
    { expiry: "window_ends_at_ms" },
  ),
  logHeads: table("log_heads", [], {
    origin: "text",
    size: "bigint",
    root: "bytea",
    last_recorded_at_ms: "bigint",
    key_position: "integer",
    registered_to: "bigint",
  }),
} as const satisfies Record<string, Table>;

/** The tables that a copy carries over, in its order. */
export const copiedTables: readonly Table[] = [
  { name: "policy_revisions", columns: { revision: "text", content: "text" }, key: ["revision"] },
  { name: "signing_keys", columns: { position: "integer", public_key: "bytea" }, key: ["position"] },
  ...Object.values(tables),
];
