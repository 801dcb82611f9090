/** The tables and columns that every kind of store has, read from the schema; `store copy` carries all of them over. */
import { sharedSchema } from "./schema.ts";

/** Type of a column in PostgreSQL. */
export type ColumnType = "text" | "bytea" | "integer" | "bigint";

export interface Table {
  readonly name: string;
  /** In order. If the first column is the tenant, the key starts with it too. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly key: readonly string[];
  /** Column with the expiry, in milliseconds since the Unix epoch; a copy skips expired rows. */
  readonly expiry?: string;
  /** What happens to an existing row; undefined: an error. */
  readonly onConflict?: string;
}

const schema = sharedSchema("(tenant_id, record_id)");

function table(name: string, more: Pick<Table, "expiry" | "onConflict"> = {}): Table {
  const [definition = ""] = new RegExp(`CREATE TABLE ${name} .*?\\n {4}\\);`, "s").exec(schema) ?? [];
  const columns = [...definition.matchAll(/^ {6}(\w+) (text|bytea|integer|bigint)\b/gm)];
  const [, ofKey, ofColumn = ""] = /PRIMARY KEY \(([^)]*)\)|(\w+) \w+(?: NOT NULL)? PRIMARY KEY/.exec(definition) ?? [];
  return {
    name,
    columns: Object.fromEntries(columns.map(([, column, type]) => [column, type as ColumnType])),
    key: ofKey?.split(", ") ?? [ofColumn],
    ...more,
  };
}

/** Rows of tenants. */
export const tables = {
  entries: table("entries"),
  openings: table("openings"),
  // A partial tile is written again, longer, with the same prefix.
  tiles: table("tiles", {
    onConflict: "ON CONFLICT (tenant_id, level, tile_index) DO UPDATE SET hashes = excluded.hashes",
  }),
  keptAnswers: table("kept_answers"),
  erasures: table("erasures"),
  legalHolds: table("legal_holds"),
  searchKeys: table("search_keys"),
  searchSegments: table("search_segments"),
  artifactKeys: table("artifact_keys"),
  registeredArtifacts: table("registered_artifacts"),
  cosignatures: table("cosignatures"),
  proofUses: table("proof_uses", { expiry: "expires_at_ms" }),
  attempts: table("attempts", { expiry: "window_ends_at_ms" }),
  logHeads: table("log_heads"),
} as const satisfies Record<string, Table>;

/** The tables that a copy carries over, in its order. */
export const copiedTables: readonly Table[] = [
  table("policy_revisions"),
  table("signing_keys"),
  ...Object.values(tables),
];
