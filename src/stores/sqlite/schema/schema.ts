/** The schema, as one table of steps. */
import { entryBytes, segmentLeaves } from "../../term-segment.ts";
import { markOf } from "../wal-binding.ts";

/** Marks the file as ours (`PRAGMA application_id`), so that another program's database is never written to. */
export const applicationId = 0x53_50_41_31;

/** One step of the schema. Its version is its position, from 1. Once it is released it never changes. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/**
 * Every key has the tenant, and starts with it, except in `entries` and `openings` those that find a record: ids of records
 * begin with a time, so what many tenants record in one commit stands together in their indexes. Entries are immutable;
 * openings stand apart from them, because erasing a record deletes its opening and nothing else, and because backups of the
 * two may be kept apart.
 */
export const migrations: readonly Migration[] = [
  {
    name: "baseline",
    sql: `
      CREATE TABLE store (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
        store_id TEXT NOT NULL,
        probed_at_ms INTEGER NOT NULL,
        probe BLOB NOT NULL,
        -- Whether this store has an anchor: from then on it is not served without.
        anchored INTEGER NOT NULL DEFAULT 0 CHECK (anchored IN (0, 1))
      ) STRICT;

      -- Counts the transactions: see wal-binding.ts.
      CREATE TABLE store_changes (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
        changes INTEGER NOT NULL,
        mark TEXT NOT NULL
      ) STRICT;
      INSERT INTO store_changes VALUES (1, 0, '${markOf(0)}');

      CREATE TABLE log_heads (
        tenant_id TEXT NOT NULL PRIMARY KEY,
        origin TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL CHECK (size > 0),
        root BLOB NOT NULL CHECK (length(root) = 32),
        last_recorded_at_ms INTEGER NOT NULL,
        -- Position of the key that signs the log.
        key_position INTEGER NOT NULL DEFAULT 0,
        -- The index of registrations has the leaves before this one.
        registered_to INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE UNIQUE INDEX log_heads_by_name ON log_heads (substr(origin, -32));
      -- Whose log a name stands for.
      CREATE VIEW log_names AS SELECT substr(origin, -32) AS name, tenant_id FROM log_heads;

      CREATE TABLE entries (
        tenant_id TEXT NOT NULL,
        leaf_index INTEGER NOT NULL CHECK (leaf_index >= 0),
        record_id TEXT NOT NULL,
        leaf BLOB NOT NULL,
        sealed BLOB NOT NULL,
        PRIMARY KEY (tenant_id, leaf_index),
        UNIQUE (record_id, tenant_id)
      ) STRICT;

      -- Rows by number. A tree that is ordered by a key moves rows between its pages and may leave copies behind, which no
      -- deletion overwrites; rows that only ever come last stay where they are.
      CREATE TABLE openings (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        opening BLOB NOT NULL CHECK (length(opening) = 32),
        PRIMARY KEY (record_id, tenant_id)
      ) STRICT;

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
      CREATE INDEX kept_answers_by_leaf ON kept_answers (tenant_id, leaf_index);

      -- Records that were erased: what a backup brings back of them is erased again.
      CREATE TABLE erasures (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        leaf_index INTEGER NOT NULL,
        erasure_leaf_index INTEGER NOT NULL CHECK (erasure_leaf_index > leaf_index),
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;

      -- What must not be erased. The record is empty if the hold covers the whole tenant.
      CREATE TABLE legal_holds (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        placed_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;

      -- Keys of the search indexes of a log: of the one that serves and, while it is rebuilt, of its successor. They stand
      -- apart like openings, because who has both key and terms can try which values were recorded.
      CREATE TABLE search_keys (
        tenant_id TEXT NOT NULL,
        generation INTEGER NOT NULL CHECK (generation > 0),
        key BLOB NOT NULL CHECK (length(key) = 32),
        -- Leaves before filled_to are in the index.
        filled_to INTEGER NOT NULL CHECK (filled_to >= 0),
        serves INTEGER NOT NULL CHECK (serves IN (0, 1)),
        PRIMARY KEY (tenant_id, generation)
      ) STRICT, WITHOUT ROWID;

      -- What up to 64 leaves that stand side by side are found by: each of their terms once, with the leaves that it finds.
      -- A search looks into the segments of a block, which is 1,024 leaves; an erasure finds them by their leaves.
      CREATE TABLE search_segments (
        tenant_id TEXT NOT NULL,
        first_leaf INTEGER NOT NULL CHECK (first_leaf >= 0),
        generation INTEGER NOT NULL,
        end_leaf INTEGER NOT NULL CHECK (end_leaf > first_leaf AND end_leaf <= first_leaf + ${segmentLeaves}),
        terms BLOB NOT NULL CHECK (length(terms) % ${entryBytes} = 0),
        PRIMARY KEY (tenant_id, first_leaf, generation)
      ) STRICT;


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

      CREATE TABLE policy_revisions (
        revision TEXT NOT NULL PRIMARY KEY,
        content TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;

      -- Public keys that have signed checkpoints, in their order; the last is the current one.
      CREATE TABLE signing_keys (
        position INTEGER PRIMARY KEY,
        public_key BLOB NOT NULL UNIQUE CHECK (length(public_key) = 32)
      ) STRICT;

      -- DPoP proofs that were used, until they expire.
      CREATE TABLE proof_uses (
        tenant_id TEXT NOT NULL,
        proof TEXT NOT NULL,
        expires_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, proof)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX proof_uses_by_expiry ON proof_uses (tenant_id, expires_at_ms);

      -- Attempts in a window of time. The tenant is empty for counters of an address, which no tenant owns.
      CREATE TABLE attempts (
        tenant_id TEXT NOT NULL,
        counter TEXT NOT NULL,
        taken INTEGER NOT NULL CHECK (taken >= 0),
        window_ends_at_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant_id, counter)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX attempts_by_expiry ON attempts (tenant_id, window_ends_at_ms);
    `,
  },
];
