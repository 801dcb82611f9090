/** The tables that every kind of store has. A driver adds its own, and translates types. `store copy` carries all of them over. */
import { entryBytes, segmentLeaves } from "./term-segment.ts";

/** One step of the schema. Its version is its position, from 1. A released step never changes. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/**
 * In the dialect of PostgreSQL. Every key starts with the tenant, so that tables can be distributed by it, except if a
 * driver's `recordKey` finds a record by its id first. Entries are immutable. Openings have their own table, because
 * erasing a record deletes its opening only, and because backups of the two may be kept apart. No sequences: numbers
 * are assigned under the lock of a log's head.
 */
export const sharedSchema = (recordKey: "(tenant_id, record_id)" | "(record_id, tenant_id)") => `
    CREATE TABLE log_heads (
      tenant_id text NOT NULL PRIMARY KEY,
      origin text NOT NULL,
      size bigint NOT NULL CHECK (size > 0),
      root bytea NOT NULL CHECK (length(root) = 32),
      last_recorded_at_ms bigint NOT NULL,
      -- Position of the key that signs the log: a gateway sees it with the head, before it signs anything.
      key_position integer NOT NULL DEFAULT 0
    );

    CREATE TABLE entries (
      tenant_id text NOT NULL,
      leaf_index bigint NOT NULL CHECK (leaf_index >= 0),
      record_id text NOT NULL,
      leaf bytea NOT NULL,
      sealed bytea NOT NULL,
      PRIMARY KEY (tenant_id, leaf_index),
      UNIQUE ${recordKey}
    );

    CREATE TABLE openings (
      tenant_id text NOT NULL,
      record_id text NOT NULL,
      opening bytea NOT NULL CHECK (length(opening) = 32),
      PRIMARY KEY ${recordKey}
    );

    -- Hashes of every tile; the one that is being filled has as many as there are. Bundles of entries are made of
    -- the leaves when they are asked for.
    CREATE TABLE tiles (
      tenant_id text NOT NULL,
      level integer NOT NULL CHECK (level BETWEEN 0 AND 63),
      tile_index bigint NOT NULL CHECK (tile_index >= 0),
      hashes bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
      PRIMARY KEY (tenant_id, level, tile_index)
    );

    -- Answers that are kept for retries. Sealed under the record's opening: both are erased together.
    CREATE TABLE kept_answers (
      tenant_id text NOT NULL,
      scope bytea NOT NULL CHECK (length(scope) = 32),
      leaf_index bigint NOT NULL,
      tree_size bigint NOT NULL CHECK (tree_size > leaf_index),
      kept_at_ms bigint NOT NULL,
      sealed bytea,
      PRIMARY KEY (tenant_id, scope)
    );
    CREATE INDEX kept_answers_by_age ON kept_answers (tenant_id, kept_at_ms);
    CREATE INDEX kept_answers_by_leaf ON kept_answers (tenant_id, leaf_index);

    -- Erased records. If a backup restores parts of them, those parts are erased again.
    CREATE TABLE erasures (
      tenant_id text NOT NULL,
      record_id text NOT NULL,
      leaf_index bigint NOT NULL,
      erasure_leaf_index bigint NOT NULL CHECK (erasure_leaf_index > leaf_index),
      PRIMARY KEY (tenant_id, record_id)
    );

    -- Legal holds: these records must not be erased. The record is empty if the hold covers the whole tenant.
    CREATE TABLE legal_holds (
      tenant_id text NOT NULL,
      record_id text NOT NULL,
      reason text NOT NULL,
      placed_at_ms bigint NOT NULL,
      PRIMARY KEY (tenant_id, record_id)
    );

    -- Key of the search index of a log. It is stored apart, like openings: with both key and terms, an attacker can
    -- test guesses of recorded values.
    CREATE TABLE search_keys (
      tenant_id text NOT NULL PRIMARY KEY,
      key bytea NOT NULL CHECK (length(key) = 32),
      -- Leaves before filled_to are in the index.
      filled_to bigint NOT NULL CHECK (filled_to >= 0)
    );

    -- Search terms of up to 64 adjacent leaves: each term once, with the leaves that it finds. A search reads the
    -- segments of a block of 1,024 leaves; an erasure finds segments by their leaves.
    CREATE TABLE search_segments (
      tenant_id text NOT NULL,
      first_leaf bigint NOT NULL CHECK (first_leaf >= 0),
      end_leaf bigint NOT NULL CHECK (end_leaf > first_leaf AND end_leaf <= first_leaf + ${segmentLeaves}),
      terms bytea NOT NULL CHECK (length(terms) % ${entryBytes} = 0),
      PRIMARY KEY (tenant_id, first_leaf)
    );

    -- Key of the index of registrations. It is stored apart, like openings and keys of search indexes.
    CREATE TABLE artifact_keys (
      tenant_id text NOT NULL PRIMARY KEY,
      key bytea NOT NULL CHECK (length(key) = 32)
    );

    -- Registrations in effect, by the HMAC of the artifact's name under the index key. The row of an erased one stays,
    -- and then shows that something is no longer known. Few are relied on, however many there are.
    CREATE TABLE registered_artifacts (
      tenant_id text NOT NULL,
      artifact bytea NOT NULL CHECK (length(artifact) = 32),
      relied_on integer NOT NULL CHECK (relied_on IN (0, 1)),
      leaf_index bigint NOT NULL,
      PRIMARY KEY (tenant_id, artifact, relied_on, leaf_index)
    );
    CREATE INDEX registered_artifacts_by_leaf ON registered_artifacts (tenant_id, leaf_index);

    -- Signature lines of witnesses: for each log the newest of each.
    CREATE TABLE cosignatures (
      tenant_id text NOT NULL,
      witness text NOT NULL,
      key_id text NOT NULL,
      size bigint NOT NULL CHECK (size > 0),
      root bytea NOT NULL CHECK (length(root) = 32),
      line text NOT NULL,
      PRIMARY KEY (tenant_id, witness, key_id)
    );

    CREATE TABLE policy_revisions (
      revision text NOT NULL PRIMARY KEY,
      content text NOT NULL
    );

    -- Public keys that have signed checkpoints, in their order; the last is the current one.
    CREATE TABLE signing_keys (
      position integer PRIMARY KEY,
      public_key bytea NOT NULL UNIQUE CHECK (length(public_key) = 32)
    );

    -- The part that this store has in a copy: its source is sealed, its target is not complete. Empty otherwise.
    CREATE TABLE store_copy (
      singleton integer PRIMARY KEY CHECK (singleton = 1),
      part text NOT NULL CHECK (part IN ('source', 'target')),
      other_store_id text NOT NULL,
      -- Names the run of the copy: an interrupted run must not finish another's.
      attempt text NOT NULL,
      -- Whether the target may be served: the seal of its source is then permanent.
      is_final integer NOT NULL CHECK (is_final IN (0, 1))
    );

    -- DPoP proofs that were used, until they expire.
    CREATE TABLE proof_uses (
      tenant_id text NOT NULL,
      proof text NOT NULL,
      expires_at_ms bigint NOT NULL,
      PRIMARY KEY (tenant_id, proof)
    );
    CREATE INDEX proof_uses_by_expiry ON proof_uses (tenant_id, expires_at_ms);

    -- Attempts in a window of time. The tenant is empty for counters of an address, which no tenant owns.
    CREATE TABLE attempts (
      tenant_id text NOT NULL,
      counter text NOT NULL,
      taken integer NOT NULL CHECK (taken >= 0),
      window_ends_at_ms bigint NOT NULL,
      PRIMARY KEY (tenant_id, counter)
    );
    CREATE INDEX attempts_by_expiry ON attempts (tenant_id, window_ends_at_ms);
`;

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
