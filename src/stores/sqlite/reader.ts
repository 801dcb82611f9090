/** All that reads records back: in the reader's thread, on a connection that cannot write. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type { LogState, StoredCosignature } from "../../ledger/ports/store.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import type { Hash } from "../../ledger/tlog/tree.ts";
import type { RegistrationsLook } from "../found-registrations.ts";
import { LogReader } from "../sql/log-reader.ts";
import { readCosignatures } from "../sql/log-rows.ts";
import { lookAtRegistrations } from "../sql/registrations.ts";
import { searchRecords } from "../sql/search.ts";
import type { SqliteConnection } from "./connection.ts";
import { notedRegistrations } from "./erasure/noted-erasures.ts";
import { inSnapshot, SqliteQueries } from "./queries.ts";

export class SqliteReader {
  readonly #queries: SqliteQueries;
  readonly #logs: LogReader;

  /**
   * The connection becomes the reader's: it is closed with it.
   * @param connection on which erased records are hidden (`hideErased`)
   */
  constructor(connection: SqliteConnection) {
    this.#queries = new SqliteQueries(connection);
    this.#logs = new LogReader(this.#queries);
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#logs.find(tenantId, recordId);
  }

  /** In one snapshot: a rebuild that ends in between would take away what its predecessor has. */
  search(query: SearchQuery): Promise<SearchPage> {
    return inSnapshot(this.#queries, () => searchRecords(this.#queries, query));
  }

  registrations(tenantId: TenantId, names: readonly string[]): Promise<RegistrationsLook> {
    return inSnapshot(this.#queries, () => lookAtRegistrations(this.#queries, tenantId, names, notedRegistrations));
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return readCosignatures(this.#queries);
  }

  logs(): Promise<readonly LogState[]> {
    return this.#logs.logs();
  }

  log(name: LogName): Promise<LogState | undefined> {
    return this.#logs.log(name);
  }

  async tile(name: LogName, tile: TileName): Promise<Uint8Array | undefined> {
    const head = await this.#logs.log(name);
    return head && this.#logs.tile(head, tile);
  }

  async consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined> {
    const head = await this.#logs.log(name);
    return head && this.#logs.consistencyProof(head, first, second);
  }

  async multiProof(name: LogName, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined> {
    const head = await this.#logs.log(name);
    return head && this.#logs.multiProof(head, size, leafIndices);
  }

  /** Rejects when the file cannot be read. */
  async probe(): Promise<void> {
    if (this.#queries.connection.prepare("SELECT store_id FROM store").get() === undefined)
      throw new Error("The store has lost its identity.");
  }

  close(): void {
    this.#queries.connection.close();
  }
}
