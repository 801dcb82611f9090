/** Records of a store, for commands that look at it beside a running service. */
import type { RecordArchive } from "../../ledger/ports.ts";
import { openConnection } from "./connection.ts";
import { describeFailure, toError } from "./errors.ts";
import { SqliteReader } from "./reader.ts";

const busyTimeoutMs = 10_000;

/** Opens the file, which must exist. Throws an SQLite error where it cannot be read. */
export function openSqliteArchive(path: string): RecordArchive {
  const reader = openReader(path);
  const attempt = async <T>(read: () => T): Promise<T> => {
    try {
      return read();
    } catch (error) {
      throw toError(describeFailure(error));
    }
  };
  return {
    find: (tenantId, recordId) => attempt(() => reader.find(tenantId, recordId)),
    policyRevision: (revision) => attempt(() => reader.policyRevision(revision)),
    close: () => reader.close(),
  };
}

function openReader(path: string): SqliteReader {
  const connection = openConnection({ path, readOnly: true, busyTimeoutMs });
  try {
    return new SqliteReader(connection);
  } catch (error) {
    connection.close();
    throw error;
  }
}
