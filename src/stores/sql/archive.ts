/** A whole store, row by row, for commands beside a running service. Read-only. */
import { existsSync } from "node:fs";
import type { RecordId, TenantId } from "../../base/ids.ts";
import { type SignableState, signableOf } from "../../ledger/ports/anchor.ts";
import type {
  AnchorFinding,
  AuditedLog,
  Companions,
  IdempotencyRow,
  OrphanRow,
  RegistrationRows,
  SearchRows,
  StoreArchive,
  StoredEntry,
} from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type {
  ErasurePreview,
  LegalHold,
  NotedErasure,
  UndoneErasure,
} from "../../ledger/ports/records-administration.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type { CommittedRecord, LogState, StoredCosignature, StoredTree } from "../../ledger/ports/store.ts";
import { rangeOfBlock } from "../../ledger/search/search-index.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import type { Hash } from "../../ledger/tlog/tree.ts";
import { SqliteAnchor } from "../files/anchor.ts";
import { DamagedError } from "../files/errors.ts";
import { findAnchorProblems } from "./anchoring.ts";
import { allHolds, findUndone, previewErasure } from "./erasure.ts";
import { lastLeafSql, toAuditedRow, toRegistrationRowOfLeaf } from "./found-registrations.ts";
import { toIdempotencyRow } from "./idempotency-records.ts";
import { headOfTenant, isTimeAccepted, openingIn, readTiles, type StoredHead, visibleOpening } from "./log-rows.ts";
import { type Database, type Queries, type Statement, translated } from "./queries.ts";
import { consistencyProofOf, StoreReader, tileOf } from "./reader.ts";
import { indexOf } from "./search-index.ts";
import { emptiedSegments, rowsInSegments } from "./search-segments.ts";
import { orphanRow, orphanRowQueries } from "./store-checks.ts";

const entriesOf = (name: string, opening: string): Statement => ({
  name,
  text: `SELECT entries.leaf_index, record_id, leaf, sealed, ${opening}
          WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
          ORDER BY entries.leaf_index LIMIT $4`,
});
const entriesFrom = entriesOf("entries_from", visibleOpening);
/** As the store has it: an erasure that only the anchor notes leaves no gap in the log. */
const walkFrom = entriesOf("walk_from", openingIn("/*main.*/openings"));
const policyRevisions: Statement = {
  name: "policy_revisions",
  text: "SELECT revision FROM policy_revisions ORDER BY revision",
};
const signingKeys: Statement = {
  name: "signing_keys",
  text: "SELECT public_key FROM signing_keys WHERE $1::integer IS NULL OR position <= $1::integer ORDER BY position",
};
const orphanRows = orphanRowQueries("/*main.*/").map(
  ([table, text]) => [table, { name: `stray_${table}`, text }] as const,
);

/** Entries in memory at a time, each a few KiB, 1 MiB at most. */
const entriesEach = 256;

/** How long to wait for another process that writes to the anchor. */
const anchorBusyTimeoutMs = 10_000;

export interface ArchiveSource extends Pick<Database, "query" | "toError" | "close"> {
  /** Path of the anchor; undefined if there is none. */
  readonly anchorPath: string | undefined;
  /** Whether an anchor is required. */
  readonly isAnchored: boolean;
  /** Erasures that the store's own anchor notes now. */
  notedErasures(): readonly NotedErasure[];
  /** Reads the store as it is now, rather than as it was when it was opened. */
  withNewest<Result>(look: (queries: Queries) => Promise<Result>): Promise<Result>;
  /** Makes durable what was read of a log. */
  settle?(tenantId: TenantId): Promise<void>;
  clockMs?(): Promise<number>;
}

export class StoredArchive implements StoreArchive {
  readonly #source: ArchiveSource;
  readonly #reader: StoreReader;

  /** @param source whose queries see one state of the store */
  constructor(source: ArchiveSource) {
    this.#source = source;
    this.#reader = new StoreReader({
      query: (statement, values) => source.query(statement, values),
      snapshot: (work) => work(source),
    });
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#translated(() => this.#reader.find(tenantId, recordId));
  }

  policyRevision(revision: string): Promise<string | undefined> {
    return this.#translated(() => this.#reader.policyRevision(revision));
  }

  clockMs(): Promise<number | undefined> {
    return this.#translated(async () => this.#source.clockMs?.());
  }

  logs(): Promise<readonly LogState[]> {
    return this.#translated(() => this.#reader.logs());
  }

  proven(name: LogName, tree: StoredTree, recordId: RecordId): Promise<CommittedRecord | "unknown" | "erased"> {
    return this.#translated(() => this.#reader.proven(name, tree, recordId));
  }

  search(query: SearchQuery): Promise<SearchPage> {
    return this.#translated(() => this.#reader.search(query));
  }

  log(head: LogState): AuditedLog {
    return {
      head,
      entries: () => this.#entries(walkFrom, head, 0, Number.MAX_SAFE_INTEGER),
      tile: (level, index) =>
        this.#translated(async () => (await readTiles(this.#source, head.tenantId, [{ level, index }]))(level, index)),
    };
  }

  entries(head: LogState, first: number, end: number): AsyncGenerator<StoredEntry> {
    return this.#entries(entriesFrom, head, first, end);
  }

  async *#entries(statement: Statement, { tenantId }: LogState, first: number, end: number) {
    for (let next = first; next < end; ) {
      const values = [tenantId, next, end, entriesEach];
      const { rows } = await this.#translated(() => this.#source.query(statement, values));
      if (rows.length === 0) return;
      for (const row of rows) {
        const leafIndex = row.leaf_index as number;
        next = leafIndex + 1;
        yield {
          leafIndex,
          recordId: row.record_id as RecordId,
          leaf: row.leaf as Uint8Array,
          sealed: row.sealed as Uint8Array,
          opening: (row.opening as Uint8Array | null) ?? undefined,
        };
      }
    }
  }

  tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined> {
    return this.#translated(() => tileOf(this.#source, head, tile));
  }

  consistencyProof(head: LogState, first: number, second: number): Promise<readonly Hash[] | undefined> {
    return this.#translated(() => consistencyProofOf(this.#source, head, first, second));
  }

  companions({ tenantId }: LogState): Promise<Companions> {
    return this.#translated(() => companionsOf(this.#source, tenantId));
  }

  policyRevisions(): Promise<readonly string[]> {
    return this.#translated(async () =>
      (await this.#source.query(policyRevisions, [])).rows.map(({ revision }) => revision as string),
    );
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return this.#translated(() => this.#reader.cosignatures());
  }

  signingKeys(head?: LogState): Promise<readonly Uint8Array[]> {
    return this.#translated(async () => {
      const stored = head && (await headOfTenant(this.#source, head.tenantId));
      const { rows } = await this.#source.query(signingKeys, [stored?.keyPosition ?? null]);
      return rows.map(({ public_key }) => public_key as Uint8Array);
    });
  }

  orphanRows(): Promise<readonly OrphanRow[]> {
    return this.#translated(async () => {
      const found: OrphanRow[] = [];
      for (const [table, statement] of orphanRows)
        found.push(...(await this.#source.query(statement, [])).rows.map((row) => orphanRow(table, row)));
      return found;
    });
  }

  /**
   * The archive shows the store as it was when it was opened, and a service may have advanced the anchor since. The
   * newest head is read in that case.
   */
  anchorProblems(): Promise<readonly AnchorFinding[]> {
    return this.#translated(async () => {
      const { anchorPath, isAnchored } = this.#source;
      if (anchorPath === undefined) return [];
      if (!existsSync(anchorPath))
        return isAnchored ? [{ tenantId: undefined, message: `${anchorPath} is missing` }] : [];
      return withAnchor(anchorPath, (anchor) => {
        const noted = { storeId: () => anchor.storeId(), all: () => logs };
        const logs = [...anchor.all()];
        return this.#source.withNewest((queries) => findAnchorProblems(queries, noted, anchorPath));
      });
    });
  }

  async signable(head: LogState): Promise<SignableState> {
    const { anchorPath } = this.#source;
    await this.#translated(async () => this.#source.settle?.(head.tenantId));
    const problems = await this.anchorProblems();
    const own = problems.find(({ tenantId }) => tenantId === undefined || tenantId === head.tenantId);
    if (own !== undefined) return { problem: own.message };
    if (anchorPath === undefined || !existsSync(anchorPath)) return signableOf(head, "unanchored");
    return this.#translated(() =>
      withAnchor(anchorPath, async (anchor) =>
        signableOf(head, anchor.storeId() === undefined ? "unanchored" : (anchor.find(head.tenantId) ?? "unknown")),
      ),
    );
  }

  undoneErasures(): Promise<readonly UndoneErasure[]> {
    return this.#translated(() => {
      // The notes come first: an erasure is in the store before its anchor notes it.
      const noted = this.#source.notedErasures();
      return this.#source.withNewest((queries) => findUndone(queries, noted));
    });
  }

  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
    return this.#translated(() => allHolds(this.#source, tenantId));
  }

  previewErasure(tenantId: TenantId, recordIds: readonly RecordId[]): Promise<ErasurePreview> {
    return this.#translated(() => previewErasure(this.#source, tenantId, recordIds));
  }

  close(): Promise<void> {
    return this.#source.close();
  }

  #translated<Result>(work: () => Promise<Result>): Promise<Result> {
    return translated(this.#source, work);
  }
}

async function withAnchor<Result>(path: string, use: (anchor: SqliteAnchor) => Promise<Result>): Promise<Result> {
  const anchor = SqliteAnchor.open({ path, readOnly: true, busyTimeoutMs: anchorBusyTimeoutMs });
  try {
    return await use(anchor);
  } finally {
    anchor.close();
  }
}

const rowsAfter: Statement = {
  name: "kept_after",
  text: `SELECT kept_answers.scope, leaf_index, tree_size, kept_answers.sealed AS answer,
                record_id, leaf, entries.sealed AS record, opening
           FROM kept_answers
           LEFT JOIN entries USING (tenant_id, leaf_index)
           LEFT JOIN openings USING (tenant_id, record_id)
          WHERE tenant_id = $1 AND kept_answers.scope > $2 ORDER BY kept_answers.scope LIMIT $3`,
};
const artifactKey: Statement = {
  name: "artifact_key_of_log",
  text: "SELECT key FROM artifact_keys WHERE tenant_id = $1",
};
const registrationsWithin: Statement = {
  name: "registrations_within",
  text: `SELECT leaf_index, artifact, relied_on FROM registered_artifacts
          WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3`,
};
const lastRegistration: Statement = { name: "last_registration", text: lastLeafSql("$1", "$2") };
const registrationsOf: Statement = {
  name: "registrations_of",
  text: `SELECT registered.artifact, registered.relied_on, entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
           JOIN registered_artifacts registered
             ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
          WHERE entries.tenant_id = $1 AND registered.tenant_id = $1 AND registered.artifact = $2
          ORDER BY registered.leaf_index`,
};
const rowsEach = 256;

/** Rows beside a log's entries, for the audit. Rejects with `DamagedError` if there is no such log. */
async function companionsOf(queries: Queries, tenantId: TenantId): Promise<Companions> {
  const head = await headOfTenant(queries, tenantId);
  if (head === undefined) throw new DamagedError(`the log of ${tenantId} has no head`);
  return {
    lastRecordedAtMs: head.lastRecordedAtMs,
    isTimeAccepted: await isTimeAccepted(queries, head),
    searchIndex: await searchRows(queries, head),
    registrations: await registrationRows(queries, head),
    idempotencyRows: () => idempotencyRows(queries, tenantId),
  };
}

async function searchRows(queries: Queries, { tenantId, size }: StoredHead): Promise<SearchRows | undefined> {
  const index = await indexOf(queries, tenantId);
  if (index === undefined) return undefined;
  const { generation, key, filledTo } = index;
  return {
    key,
    waiting: [{ first: filledTo, end: size }, ...(await emptiedSegments(queries, tenantId, generation))],
    terms: (block) => rowsInSegments(queries, tenantId, { ...rangeOfBlock(block), generation }),
  };
}

async function registrationRows(queries: Queries, { tenantId, registeredTo }: StoredHead): Promise<RegistrationRows> {
  const [row] = (await queries.query(artifactKey, [tenantId])).rows;
  return {
    key: row?.key as Uint8Array | undefined,
    indexedTo: registeredTo,
    within: async (first, end) =>
      (await queries.query(registrationsWithin, [tenantId, first, end])).rows.map(toRegistrationRowOfLeaf),
    lastOf: async (artifact) => {
      const [row] = (await queries.query(lastRegistration, [tenantId, artifact])).rows;
      return (row?.leaf_index as number | null | undefined) ?? undefined;
    },
    of: async (artifact) => (await queries.query(registrationsOf, [tenantId, artifact])).rows.map(toAuditedRow),
  };
}

async function* idempotencyRows(queries: Queries, tenantId: TenantId): AsyncGenerator<IdempotencyRow> {
  let after: Uint8Array = new Uint8Array(0);
  for (;;) {
    const { rows } = await queries.query(rowsAfter, [tenantId, after, rowsEach]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield* rows.map(toIdempotencyRow);
    after = last.scope as Uint8Array;
  }
}
