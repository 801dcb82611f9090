/** A whole store, row by row, for commands beside a running service. Read-only. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type {
  Companions,
  IdempotencyRow,
  RegistrationRows,
  StoreArchive,
  StoredEntry,
} from "../../ledger/ports/archive.ts";
import type { NotedErasure } from "../../ledger/ports/records-administration.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { rangeOfBlock } from "../../ledger/search/search-index.ts";
import { readAnchor } from "../files/anchor.ts";
import { DamagedError } from "../files/errors.ts";
import { allHolds, findUndone, previewErasure } from "./erasure.ts";
import { headOfTenant, openingIn, readPublicKeys, readTiles, visibleOpening } from "./log-rows.ts";
import { type Database, type Queries, type Row, throughAll, translated } from "./queries.ts";
import { storeReader } from "./reader.ts";
import { artifactKeyOf } from "./registrations.ts";
import { indexOf, rowsInSegments } from "./search-segments.ts";
import { type AnchorFinding, findAnchorProblems, findOrphanRows, logsAhead, readCopyState } from "./store-checks.ts";

const entriesOf = (
  opening: string,
) => `SELECT entries.leaf_index AS "leafIndex", record_id AS "recordId", leaf, sealed, ${opening}
   WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
   ORDER BY entries.leaf_index LIMIT $4`;
const entriesFrom = entriesOf(visibleOpening);
/** State of the store itself: an erasure that only the anchor notes leaves no gap in the log. */
const walkFrom = entriesOf(openingIn("/*main.*/openings"));
const policyRevisions = "SELECT revision FROM policy_revisions ORDER BY revision";

/** Rows in memory at a time, each a few KiB, 1 MiB at most. */
const rowsEach = 256;

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

/** The state of a log that may be signed, or why none may be. */
type SignableState = { readonly head: LogState } | { readonly problem: string };

/** An archive with what operators' commands need besides. */
export type OperatorArchive = ReturnType<typeof archiveOver>;

/** @param source whose queries see one state of the store */
export function archiveOver(source: ArchiveSource) {
  const { anchorPath, isAnchored } = source;
  const database = {
    query: source.query.bind(source),
    snapshot: <R>(work: (of: Queries) => Promise<R>) => work(source),
  };
  const reader = throughAll(storeReader(database), (work) => translated(source, work));

  async function* entriesBy(statement: string, { tenantId }: LogState, first: number, end: number) {
    const pages = pagesOf(async (last) => {
      const values = [tenantId, last === undefined ? first : (last.leafIndex as number) + 1, end, rowsEach];
      return (await translated(source, () => source.query(statement, values))).rows;
    });
    for await (const rows of pages) yield* rows.map(toEntry);
  }

  /**
   * Lists all contradictions between the store, as it is now, and its anchor: the archive shows the store as it was when
   * it was opened, and a service may have advanced the anchor since.
   */
  async function anchorProblems(): Promise<readonly AnchorFinding[]> {
    if (anchorPath === undefined) return [];
    using anchor = readAnchor(anchorPath);
    // A refused start leaves a new file.
    if (anchor?.storeId() === undefined) {
      const message = `${anchorPath} is ${anchor === undefined ? "missing" : "new"}`;
      return isAnchored ? [{ tenantId: undefined, message }] : [];
    }
    const logs = anchor.all();
    const noted = { path: anchorPath, storeId: () => anchor.storeId(), all: () => logs };
    return await source.withNewest((queries) => findAnchorProblems(queries, noted));
  }

  /** Returns the newest state, up to this one, that may be signed: records beyond the anchor were not answered yet. */
  async function signable(head: LogState): Promise<SignableState> {
    if ((await readCopyState(source))?.part === "target")
      return { problem: "a store is still being copied to this one" };
    await source.settle?.(head.tenantId);
    const problems = await anchorProblems();
    const own = problems.find(({ tenantId }) => tenantId === undefined || tenantId === head.tenantId);
    if (own !== undefined) return { problem: own.message };
    using anchor = anchorPath === undefined ? undefined : readAnchor(anchorPath);
    if (anchor?.storeId() === undefined) return { head };
    const anchored = anchor.find(head.tenantId);
    if (anchored === undefined) return { problem: `the anchor does not know log ${head.origin} yet: try again` };
    const { size, root } = anchored;
    return { head: size < head.size ? { ...head, size, root } : head };
  }

  const others = {
    anchorProblems,
    signable,
    storedTile: async ({ tenantId }: LogState, level: number, index: number) =>
      (await readTiles(source, tenantId, [{ level, index }]))(level, index),
    /** The database's clock, in milliseconds since the Unix epoch; undefined if the store uses the machine's. */
    clockMs: async () => source.clockMs?.(),
    copyState: () => readCopyState(source),
    companions: ({ tenantId }: LogState) => companionsOf(source, tenantId),
    /** Policy revisions with a stored text. */
    policyRevisions: async () =>
      (await source.query(policyRevisions, [])).rows.map(({ revision }) => revision as string),
    /** Public keys that have signed checkpoints, the current one last. 32 bytes each. */
    signingKeys: () => readPublicKeys(source),
    /**
     * The signing keys up to the log's current one: during a rotation, some logs may still have the older key.
     * Undefined if the log names a key that the store does not have.
     */
    async keysOfLog({ tenantId }: LogState): Promise<readonly Uint8Array[] | undefined> {
      const keys = await readPublicKeys(source);
      const { keyPosition = 0 } = (await headOfTenant(source, tenantId)) ?? {};
      return keyPosition > 0 && keyPosition >= keys.length ? undefined : keys.slice(0, keyPosition + 1);
    },
    /** Logs that prevent a start: they are ahead of the clock, and no operator has accepted their time. */
    logsAhead: (nowMs: number) => logsAhead(source, nowMs),
    /** Rows without a log. If a table has many, only some are listed. */
    orphanRows: () => findOrphanRows(source),
    /** Erasures that must be repeated, as the store is now. */
    undoneErasures() {
      // The notes come first: an erasure is in the store before its anchor notes it.
      const noted = source.notedErasures();
      return source.withNewest((queries) => findUndone(queries, noted));
    },
    /** Holds by tenant and record, those on whole tenants first; of one tenant, or of all. */
    holds: (tenantId: TenantId | undefined) => allHolds(source, tenantId),
    /** Shows what `RecordsAdministration.erase` would do. */
    previewErasure: (tenantId: TenantId, recordIds: readonly RecordId[]) => previewErasure(source, tenantId, recordIds),
  };
  const archive: StoreArchive & typeof others & AsyncDisposable = {
    ...reader,
    ...throughAll(others, (work) => translated(source, work)),
    entries: (head, first, end, openings) =>
      entriesBy(openings === "stored" ? walkFrom : entriesFrom, head, first, end),
    close: () => source.close(),
    [Symbol.asyncDispose]: () => source.close(),
  };
  return archive;
}

const rowsAfter = `SELECT kept_answers.scope, leaf_index AS "leafIndex", tree_size AS "treeSize",
         kept_answers.sealed AS answer, record_id AS "recordId", leaf, entries.sealed AS record, opening
    FROM kept_answers
    LEFT JOIN entries USING (tenant_id, leaf_index)
    LEFT JOIN openings USING (tenant_id, record_id)
   WHERE tenant_id = $1 AND kept_answers.scope > $2 ORDER BY kept_answers.scope LIMIT $3`;
/** Looks into the index once, however many rows the artifact has. */
const hasLater = (reliedOn: 0 | 1) =>
  `EXISTS (SELECT 1 FROM registered_artifacts later
            WHERE later.tenant_id = $1 AND later.artifact = registered.artifact AND later.relied_on = ${reliedOn}
              AND later.leaf_index > registered.leaf_index)`;
const registrationsWithin = `SELECT leaf_index, artifact, relied_on, NOT (${hasLater(0)} OR ${hasLater(1)}) AS is_last
    FROM registered_artifacts registered
   WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3`;
const registrationsOf = `SELECT registered.artifact, registered.relied_on, entries.leaf_index AS "leafIndex", record_id AS "recordId",
         leaf, sealed,
         ${visibleOpening}
    JOIN registered_artifacts registered
      ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
   WHERE entries.tenant_id = $1 AND registered.tenant_id = $1 AND registered.artifact = $2
   ORDER BY registered.leaf_index`;

/** The statements name the columns so. */
function toEntry(row: Row): StoredEntry {
  const entry = row as unknown as StoredEntry;
  return { ...entry, opening: entry.opening ?? undefined };
}

/** Rows beside a log's entries, for the audit. Rejects with `DamagedError` if there is no such log. */
async function companionsOf(queries: Queries, tenantId: TenantId): Promise<Companions> {
  const head = await headOfTenant(queries, tenantId);
  if (head === undefined) throw new DamagedError(`the log of ${tenantId} has no head`);
  const index = await indexOf(queries, tenantId);
  return {
    lastRecordedAtMs: head.lastRecordedAtMs,
    searchIndex: index && { ...index, terms: (block) => rowsInSegments(queries, tenantId, rangeOfBlock(block)) },
    registrations: await registrationRows(queries, tenantId),
    idempotencyRows: () => idempotencyRows(queries, tenantId),
  };
}

async function registrationRows(queries: Queries, tenantId: TenantId): Promise<RegistrationRows> {
  return {
    key: await artifactKeyOf(queries, tenantId),
    within: async (first, end) =>
      (await queries.query(registrationsWithin, [tenantId, first, end])).rows.map((row) => ({
        leafIndex: row.leaf_index as number,
        artifact: row.artifact as Uint8Array,
        isReliedOn: row.relied_on === 1,
        isLast: Boolean(row.is_last),
      })),
    of: async (artifact) =>
      (await queries.query(registrationsOf, [tenantId, artifact])).rows.map((row) => ({
        ...toEntry(row),
        isReliedOn: row.relied_on === 1,
      })),
  };
}

async function* idempotencyRows(queries: Queries, tenantId: TenantId): AsyncGenerator<IdempotencyRow> {
  const pages = pagesOf(async (last) => {
    return (await queries.query(rowsAfter, [tenantId, last?.scope ?? new Uint8Array(0), rowsEach])).rows;
  });
  for await (const rows of pages) yield* rows as unknown as readonly IdempotencyRow[];
}

/** Reads pages, each behind the last row of the one before, up to an empty one. */
async function* pagesOf(read: (last: Row | undefined) => Promise<readonly Row[]>): AsyncGenerator<readonly Row[]> {
  for (let rows = await read(undefined); rows.length > 0; rows = await read(rows.at(-1))) yield rows;
}
