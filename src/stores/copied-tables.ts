/** The tables and columns that `store copy` carries over: the same on both kinds of store. */

/** Type of a column in PostgreSQL. */
export type ColumnType = "text" | "bytea" | "integer" | "bigint";

export interface CopiedTable {
  readonly name: string;
  /** Of which the first, where it is the tenant, is the first of the key too. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** Columns of the key, by which rows are read. */
  readonly key: readonly string[];
  /** Column with the milliseconds since the Unix epoch from which on nobody needs a row; such rows stay behind. */
  readonly expiry?: string;
}

const tenant = { tenant_id: "text" } as const;

/** Rows of a tenant. A log's head comes last, so that it stands for nothing that is not there. */
export const tenantTables: readonly CopiedTable[] = [
  {
    name: "entries",
    columns: { ...tenant, leaf_index: "bigint", record_id: "text", leaf: "bytea", sealed: "bytea" },
    key: ["tenant_id", "leaf_index"],
  },
  {
    name: "openings",
    columns: { ...tenant, record_id: "text", opening: "bytea" },
    key: ["tenant_id", "record_id"],
  },
  {
    name: "tiles",
    columns: { ...tenant, level: "integer", tile_index: "bigint", hashes: "bytea" },
    key: ["tenant_id", "level", "tile_index"],
  },
  {
    name: "kept_answers",
    columns: {
      ...tenant,
      scope: "bytea",
      leaf_index: "bigint",
      tree_size: "bigint",
      kept_at_ms: "bigint",
      sealed: "bytea",
    },
    key: ["tenant_id", "scope"],
  },
  {
    name: "erasures",
    columns: { ...tenant, record_id: "text", leaf_index: "bigint", erasure_leaf_index: "bigint" },
    key: ["tenant_id", "record_id"],
  },
  {
    name: "legal_holds",
    columns: { ...tenant, record_id: "text", reason: "text", placed_at_ms: "bigint" },
    key: ["tenant_id", "record_id"],
  },
  {
    name: "search_keys",
    columns: {
      ...tenant,
      generation: "integer",
      key: "bytea",
      filled_to: "bigint",
      serves: "integer",
    },
    key: ["tenant_id", "generation"],
  },
  {
    name: "search_segments",
    columns: { ...tenant, first_leaf: "bigint", generation: "integer", end_leaf: "bigint", terms: "bytea" },
    key: ["tenant_id", "first_leaf", "generation"],
  },
  {
    name: "artifact_keys",
    columns: { ...tenant, key: "bytea" },
    key: ["tenant_id"],
  },
  {
    name: "registered_artifacts",
    columns: { ...tenant, artifact: "bytea", relied_on: "integer", leaf_index: "bigint" },
    key: ["tenant_id", "artifact", "relied_on", "leaf_index"],
  },
  {
    name: "cosignatures",
    columns: { ...tenant, witness: "text", key_id: "text", size: "bigint", root: "bytea", line: "text" },
    key: ["tenant_id", "witness", "key_id"],
  },
  {
    name: "proof_uses",
    columns: { ...tenant, proof: "text", expires_at_ms: "bigint" },
    key: ["tenant_id", "proof"],
    expiry: "expires_at_ms",
  },
  {
    name: "attempts",
    columns: { ...tenant, counter: "text", taken: "integer", window_ends_at_ms: "bigint" },
    key: ["tenant_id", "counter"],
    expiry: "window_ends_at_ms",
  },
  {
    name: "log_heads",
    columns: {
      ...tenant,
      origin: "text",
      size: "bigint",
      root: "bytea",
      last_recorded_at_ms: "bigint",
      registered_to: "bigint",
    },
    key: ["tenant_id"],
  },
];

/** Rows of no tenant. */
export const sharedTables: readonly CopiedTable[] = [
  { name: "policy_revisions", columns: { revision: "text", content: "text" }, key: ["revision"] },
  { name: "signing_keys", columns: { position: "integer", public_key: "bytea" }, key: ["position"] },
];
