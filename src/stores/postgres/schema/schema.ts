/** The schema as it grew. Forward only: a migration that was released is never changed, another is added. */

/** One step of the schema. Its version is its position, from 1. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /**
   * Whether a program that knows the schema up to here can go on with it, beside one that knows it all and after it: the
   * migration adds tables, or columns with defaults, and nothing goes wrong where only some programs fill them.
   */
  readonly additive?: true;
}

/**
 * Every key starts with the tenant, so that tables can be distributed by it; rows of no tenant are in `store`,
 * `policy_revisions`, `signing_keys` and the look-up `log_names`, which are small. No sequences: numbers are given under
 * the lock of a log's head. Text is compared byte for byte, whatever the database's language.
 */
export const migrations: readonly Migration[] = [
  {
    name: "platform_store",
    sql: `
      CREATE TABLE store (
        singleton integer PRIMARY KEY CHECK (singleton = 1),
        store_id text NOT NULL,
        probed_at_ms bigint NOT NULL
      );

      CREATE TABLE log_heads (
        tenant_id text COLLATE "C" NOT NULL PRIMARY KEY,
        origin text COLLATE "C" NOT NULL,
        size bigint NOT NULL CHECK (size > 0),
        root bytea NOT NULL CHECK (length(root) = 32),
        last_recorded_at_ms bigint NOT NULL
      );

      -- Whose log a name stands for. Written before the log is opened: a name may stand for a log that never was.
      CREATE TABLE log_names (
        name text COLLATE "C" NOT NULL PRIMARY KEY,
        tenant_id text COLLATE "C" NOT NULL
      );

      CREATE TABLE entries (
        tenant_id text COLLATE "C" NOT NULL,
        leaf_index bigint NOT NULL CHECK (leaf_index >= 0),
        record_id text COLLATE "C" NOT NULL,
        leaf bytea NOT NULL,
        sealed bytea NOT NULL,
        PRIMARY KEY (tenant_id, leaf_index),
        UNIQUE (tenant_id, record_id)
      );
      -- Sealed bytes do not get smaller: no time is spent on trying.
      ALTER TABLE entries ALTER COLUMN leaf SET STORAGE EXTERNAL, ALTER COLUMN sealed SET STORAGE EXTERNAL;

      CREATE TABLE openings (
        tenant_id text COLLATE "C" NOT NULL,
        record_id text COLLATE "C" NOT NULL,
        opening bytea NOT NULL CHECK (length(opening) = 32),
        PRIMARY KEY (tenant_id, record_id)
      );

      -- Hashes of every tile; the one that is being filled has as many as there are. Bundles of entries are made of
      -- the leaves when they are asked for.
      CREATE TABLE tiles (
        tenant_id text COLLATE "C" NOT NULL,
        level integer NOT NULL CHECK (level BETWEEN 0 AND 63),
        tile_index bigint NOT NULL CHECK (tile_index >= 0),
        hashes bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
        PRIMARY KEY (tenant_id, level, tile_index)
      );
      ALTER TABLE tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

      -- What was answered to calls that may come again. Sealed under the record's opening: both are erased together.
      CREATE TABLE kept_answers (
        tenant_id text COLLATE "C" NOT NULL,
        scope bytea NOT NULL CHECK (length(scope) = 32),
        leaf_index bigint NOT NULL,
        tree_size bigint NOT NULL CHECK (tree_size > leaf_index),
        kept_at_ms bigint NOT NULL,
        sealed bytea,
        PRIMARY KEY (tenant_id, scope)
      );
      CREATE INDEX kept_answers_by_age ON kept_answers (tenant_id, kept_at_ms);
      CREATE INDEX kept_answers_by_leaf ON kept_answers (tenant_id, leaf_index);

      -- Records that were erased: what a backup brings back of them is erased again.
      CREATE TABLE erasures (
        tenant_id text COLLATE "C" NOT NULL,
        record_id text COLLATE "C" NOT NULL,
        leaf_index bigint NOT NULL,
        erasure_leaf_index bigint NOT NULL CHECK (erasure_leaf_index > leaf_index),
        PRIMARY KEY (tenant_id, record_id)
      );

      -- What must not be erased. The record is empty where the hold covers the whole tenant.
      CREATE TABLE legal_holds (
        tenant_id text COLLATE "C" NOT NULL,
        record_id text COLLATE "C" NOT NULL,
        reason text NOT NULL,
        placed_at_ms bigint NOT NULL,
        PRIMARY KEY (tenant_id, record_id)
      );

      -- Keys of the search indexes of a log: of the one that serves and, while it is built anew, of its successor. They
      -- stand apart like openings, because who has both key and terms can try which values were recorded.
      CREATE TABLE search_keys (
        tenant_id text COLLATE "C" NOT NULL,
        generation integer NOT NULL CHECK (generation > 0),
        key bytea NOT NULL CHECK (length(key) = 32),
        -- Leaves from filled_to up to and without fill_end are not indexed yet; all others are.
        filled_to bigint NOT NULL CHECK (filled_to >= 0),
        fill_end bigint NOT NULL CHECK (fill_end >= filled_to),
        PRIMARY KEY (tenant_id, generation)
      );

      -- What the records of a block, which is 1,024 leaves, are found by. Stored terms look random: block by block, an
      -- append touches a few pages that are at hand, and an erasure finds its rows without knowing what they stand for.
      CREATE TABLE search_terms (
        tenant_id text COLLATE "C" NOT NULL,
        block bigint NOT NULL CHECK (block = leaf_index / 1024),
        generation integer NOT NULL,
        term bytea NOT NULL CHECK (length(term) = 16),
        leaf_index bigint NOT NULL,
        PRIMARY KEY (tenant_id, block, generation, term, leaf_index)
      );

      -- Signature lines of witnesses: for each log the newest of each.
      CREATE TABLE cosignatures (
        tenant_id text COLLATE "C" NOT NULL,
        witness text COLLATE "C" NOT NULL,
        key_id text COLLATE "C" NOT NULL,
        size bigint NOT NULL CHECK (size > 0),
        root bytea NOT NULL CHECK (length(root) = 32),
        line text NOT NULL,
        PRIMARY KEY (tenant_id, witness, key_id)
      );

      CREATE TABLE policy_revisions (
        revision text COLLATE "C" NOT NULL PRIMARY KEY,
        content text NOT NULL
      );

      -- Public keys that have signed checkpoints, in their order; the last is the current one.
      CREATE TABLE signing_keys (
        position integer PRIMARY KEY,
        public_key bytea NOT NULL UNIQUE CHECK (length(public_key) = 32)
      );

      -- DPoP proofs that were used, until nobody takes them any more.
      CREATE TABLE proof_uses (
        tenant_id text COLLATE "C" NOT NULL,
        proof text COLLATE "C" NOT NULL,
        expires_at_ms bigint NOT NULL,
        PRIMARY KEY (tenant_id, proof)
      );
      CREATE INDEX proof_uses_by_expiry ON proof_uses (tenant_id, expires_at_ms);

      -- Attempts in a window of time. The tenant is empty for counters of an address, which no tenant owns.
      CREATE TABLE attempts (
        tenant_id text COLLATE "C" NOT NULL,
        counter text COLLATE "C" NOT NULL,
        taken integer NOT NULL CHECK (taken >= 0),
        window_ends_at_ms bigint NOT NULL,
        PRIMARY KEY (tenant_id, counter)
      );
      CREATE INDEX attempts_by_expiry ON attempts (tenant_id, window_ends_at_ms);
    `,
  },
  {
    name: "copy_mark",
    sql: `
      -- Names the copy of another store into this database while it is not whole; NULL where there is none.
      ALTER TABLE store ADD COLUMN copy_under_way text;
    `,
  },
  {
    name: "key_of_log",
    sql: `
      -- Position of the key that signs the log: a gateway sees it with the head, before it signs anything.
      DO $$ BEGIN
        EXECUTE format('ALTER TABLE log_heads ADD COLUMN key_position integer NOT NULL DEFAULT %s',
          (SELECT coalesce(max(position), 0) FROM signing_keys));
      END $$;
    `,
  },
  {
    name: "search_fields",
    sql: `
      -- Edition of the index: which fields it has. Those from before have the first; they serve until they are built anew.
      ALTER TABLE search_keys ADD COLUMN fields integer NOT NULL DEFAULT 1;
    `,
  },
  {
    name: "registered_artifacts",
    sql: `
      -- Key of the index of registrations. It stands apart like openings, and like keys of search indexes.
      CREATE TABLE artifact_keys (
        tenant_id text COLLATE "C" NOT NULL PRIMARY KEY,
        key bytea NOT NULL CHECK (length(key) = 32)
      );

      -- Registrations that count, by artifact, whose name is stored as what it is under the key. One that is erased keeps
      -- its row, which then says that something is not known any more. Few are relied on, however many there are.
      CREATE TABLE registered_artifacts (
        tenant_id text COLLATE "C" NOT NULL,
        artifact bytea NOT NULL CHECK (length(artifact) = 32),
        relied_on integer NOT NULL CHECK (relied_on IN (0, 1)),
        leaf_index bigint NOT NULL,
        PRIMARY KEY (tenant_id, artifact, relied_on, leaf_index)
      );
      CREATE INDEX registered_artifacts_by_leaf ON registered_artifacts (tenant_id, leaf_index);

      -- Leaves from here on are not looked at for registrations yet: those of logs from before, and what a program appends
      -- that knows nothing of this.
      ALTER TABLE log_heads ADD COLUMN registered_to bigint NOT NULL DEFAULT 0;
    `,
  },
];
