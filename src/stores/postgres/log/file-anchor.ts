/** The anchor in a file, which the replicas of one machine share: the same as an embedded store has. */
import type { LogAnchor } from "../../../ledger/ports/anchor.ts";
import { openConnection } from "../../sqlite/connection.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../../sqlite/log/anchor.ts";

/** Short, because the event loop waits with it. Replicas hold the lock for microseconds. */
const busyTimeoutMs = 500;

/**
 * Opens the file, and creates it where it is missing. Throws `IncompatibleStoreError` where it is something else, a
 * file system or SQLite error where it cannot be used.
 */
export function openFileAnchor(path: string): LogAnchor {
  createAnchor(path, busyTimeoutMs, openConnection);
  return anchorOf(new SqliteAnchor(openConnection({ ...anchorConnection, path, busyTimeoutMs })));
}

/** Opens the file, which must exist, to read it. */
export function readFileAnchor(path: string): LogAnchor {
  return anchorOf(new SqliteAnchor(openConnection({ path, readOnly: true, busyTimeoutMs })));
}

function anchorOf(anchor: SqliteAnchor): LogAnchor {
  return {
    find: async (tenantId) => anchor.find(tenantId),
    all: async () => [...anchor.all()],
    storeId: async () => anchor.storeId(),
    adopt: async (storeId, logs) => anchor.adopt(storeId, logs),
    advance: async (logs) => anchor.advance(logs),
    probe: async (nowMs) => anchor.probe(nowMs),
    close: async () => anchor.close(),
  };
}
