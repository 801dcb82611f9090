/** The schema as it grew. Forward only: a migration that was released is never changed, another is added. */
import type { RandomFill } from "../../../base/ids.ts";
import type { SqliteConnection } from "../connection.ts";
import { buildTiles } from "../log/build-tiles.ts";
import { buildSearch } from "../search/search-fill.ts";

/** Marks the file as ours (`PRAGMA application_id`), so that another program's database is never written to. */
export const applicationId = 0x53_50_41_31;

/** One step of the schema. Its version is its position, from 1. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** Runs after the SQL, in the same transaction: what SQL cannot compute. Throws where the data is not sound. */
  readonly fill?: (connection: SqliteConnection, random: RandomFill) => void;
  /**
   * Whether a program that knows the schema up to here can go on with it, beside one that knows it all and after it: the
   * migration adds tables, or columns with defaults, and nothing goes wrong where only some programs fill them.
   */
  readonly additive?: true;
}

/**
 * Every key has the tenant, and starts with it, save those that find a record (`record-order.ts`). Entries are immutable;
 * openings stand apart from them, because erasing a record deletes its opening and nothing else, and because backups of the
 * two may be kept apart.
 */
export const migrations: readonly Migration[] = [
  {
    name: "logs",
    sql: `
      CREATE TABLE store (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
        store_id TEXT NOT NULL,
        probed_at_ms INTEGER NOT NULL,
        probe BLOB NOT NULL
      ) STRICT;

      CREATE TABLE log_heads (
        tenant_id TEXT NOT NULL PRIMARY KEY,
        origin TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL CHECK (size > 0),
        last_recorded_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE entries (
        tenant_id TEXT NOT NULL,
        leaf_index INTEGER NOT NULL CHECK (leaf_index >= 0),
        record_id TEXT NOT NULL,
        leaf BLOB NOT NULL,
        sealed BLOB NOT NULL,
        PRIMARY KEY (tenant_id, leaf_index),
        UNIQUE (tenant_id, record_id)
      ) STRICT;

      CREATE TABLE openings (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        opening BLOB NOT NULL CHECK (length(opening) = 32),
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE policy_revisions (
        revision TEXT NOT NULL PRIMARY KEY,
        content TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: "tiles",
    sql: `
      -- Set by the step that follows the SQL; 32 bytes ever after.
      ALTER TABLE log_heads ADD COLUMN root BLOB NOT NULL DEFAULT x'';
      CREATE UNIQUE INDEX log_heads_by_name ON log_heads (substr(origin, -32));

      -- Hashes of every tile; the one that is being filled has as many as there are. Bundles of entries are made of
      -- the leaves when they are asked for.
      CREATE TABLE tiles (
        tenant_id TEXT NOT NULL,
        level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 63),
        tile_index INTEGER NOT NULL CHECK (tile_index >= 0),
        hashes BLOB NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
        PRIMARY KEY (tenant_id, level, tile_index)
      ) STRICT;

      -- What was answered to calls that may come again. Sealed under the record's opening: both are erased together.
      CREATE TABLE kept_answers (
        tenant_id TEXT NOT NULL,
        scope BLOB NOT NULL CHECK (length(scope) = 32),
        leaf_index INTEGER NOT NULL,
        tree_size INTEGER NOT NULL CHECK (tree_size > leaf_index),
        kept_at_ms INTEGER NOT NULL,
        sealed BLOB,
        PRIMARY KEY (tenant_id, scope)
      ) STRICT;
      CREATE INDEX kept_answers_by_age ON kept_answers (tenant_id, kept_at_ms);

      -- Public keys that have signed checkpoints, in their order; the last is the current one.
      CREATE TABLE signing_keys (
        position INTEGER PRIMARY KEY,
        public_key BLOB NOT NULL UNIQUE CHECK (length(public_key) = 32)
      ) STRICT;

      -- Whether this store has an anchor: from then on it is not served without.
      ALTER TABLE store ADD COLUMN anchored INTEGER NOT NULL DEFAULT 0 CHECK (anchored IN (0, 1));
    `,
    fill: buildTiles,
  },
  {
    name: "shared_limits",
    sql: `
      -- DPoP proofs that were used, until nobody takes them any more.
      CREATE TABLE proof_uses (
        tenant_id TEXT NOT NULL,
        proof TEXT NOT NULL,
        expires_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, proof)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX proof_uses_by_expiry ON proof_uses (expires_at_ms);

      -- Attempts in a window of time. The tenant is empty for counters of an address, which no tenant owns.
      CREATE TABLE attempts (
        tenant_id TEXT NOT NULL,
        counter TEXT NOT NULL,
        taken INTEGER NOT NULL CHECK (taken >= 0),
        window_ends_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, counter)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX attempts_by_expiry ON attempts (window_ends_at_ms);
    `,
  },
  {
    name: "search",
    sql: `
      -- Keys of the search indexes of a log: of the one that serves and, while it is built anew, of its successor. They
      -- stand apart like openings, because who has both key and terms can try which values were recorded.
      CREATE TABLE search_keys (
        tenant_id TEXT NOT NULL,
        generation INTEGER NOT NULL CHECK (generation > 0),
        key BLOB NOT NULL CHECK (length(key) = 32),
        -- Leaves from filled_to up to and without fill_end are not indexed yet; all others are.
        filled_to INTEGER NOT NULL CHECK (filled_to >= 0),
        fill_end INTEGER NOT NULL CHECK (fill_end >= filled_to),
        PRIMARY KEY (tenant_id, generation)
      ) STRICT, WITHOUT ROWID;

      -- What the records of a block, which is 1,024 leaves, are found by. Stored terms look random: block by block, an
      -- append touches a few pages that are at hand, and an erasure finds its rows without knowing what they stand for.
      CREATE TABLE search_terms (
        tenant_id TEXT NOT NULL,
        block INTEGER NOT NULL CHECK (block = leaf_index / 1024),
        generation INTEGER NOT NULL,
        term BLOB NOT NULL CHECK (length(term) = 16),
        leaf_index INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, block, generation, term, leaf_index)
      ) STRICT, WITHOUT ROWID;
    `,
    fill: buildSearch,
  },
  {
    name: "cosignatures",
    sql: `
      -- Signature lines of witnesses: for each log the newest of each.
      CREATE TABLE cosignatures (
        tenant_id TEXT NOT NULL,
        witness TEXT NOT NULL,
        key_id TEXT NOT NULL,
        size INTEGER NOT NULL CHECK (size > 0),
        root BLOB NOT NULL CHECK (length(root) = 32),
        line TEXT NOT NULL,
        PRIMARY KEY (tenant_id, witness, key_id)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: "erasure",
    sql: `
      -- Openings in rows by number. A tree that is ordered by a key moves rows between its pages and may leave copies
      -- behind, which no deletion overwrites; rows that only ever come last stay where they are.
      CREATE TABLE openings_by_number (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        opening BLOB NOT NULL CHECK (length(opening) = 32),
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT;
      INSERT INTO openings_by_number (tenant_id, record_id, opening) SELECT tenant_id, record_id, opening FROM openings;
      DROP TABLE openings;
      ALTER TABLE openings_by_number RENAME TO openings;

      -- Records that were erased: what a backup brings back of them is erased again.
      CREATE TABLE erasures (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        leaf_index INTEGER NOT NULL,
        erasure_leaf_index INTEGER NOT NULL CHECK (erasure_leaf_index > leaf_index),
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX kept_answers_by_leaf ON kept_answers (tenant_id, leaf_index);

      -- What must not be erased. The record is empty where the hold covers the whole tenant.
      CREATE TABLE legal_holds (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        placed_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: "search_fields",
    sql: `
      -- Edition of the index: which fields it has. Those from before have the first; they serve until they are built anew.
      ALTER TABLE search_keys ADD COLUMN fields INTEGER NOT NULL DEFAULT 1;
    `,
  },
  {
    name: "registered_artifacts",
    sql: `
      -- Key of the index of registrations. It stands apart like openings, and like keys of search indexes.
      CREATE TABLE artifact_keys (
        tenant_id TEXT NOT NULL PRIMARY KEY,
        key BLOB NOT NULL CHECK (length(key) = 32)
      ) STRICT, WITHOUT ROWID;

      -- Registrations that count, by artifact, whose name is stored as what it is under the key. One that is erased keeps
      -- its row, which then says that something is not known any more. Few are relied on, however many there are.
      CREATE TABLE registered_artifacts (
        tenant_id TEXT NOT NULL,
        artifact BLOB NOT NULL CHECK (length(artifact) = 32),
        relied_on INTEGER NOT NULL CHECK (relied_on IN (0, 1)),
        leaf_index INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, artifact, relied_on, leaf_index)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX registered_artifacts_by_leaf ON registered_artifacts (tenant_id, leaf_index);

      -- Leaves from here on are not looked at for registrations yet: those of logs from before, and what a program appends
      -- that knows nothing of this.
      ALTER TABLE log_heads ADD COLUMN registered_to INTEGER NOT NULL DEFAULT 0;
    `,
  },
];
