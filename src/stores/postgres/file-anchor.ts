/** The anchor of the replicas of one machine, as a file. */
import { anchorConnection, createAnchor, SqliteAnchor } from "../files/anchor.ts";

/** Short, because it blocks the event loop. Replicas hold the lock for microseconds. */
const anchorBusyTimeoutMs = 500;

/**
 * Opens the file, and creates it if it is missing. Throws `IncompatibleStoreError` if it is another kind of file, a
 * file system or SQLite error if it cannot be used.
 */
export function openFileAnchor(path: string): SqliteAnchor {
  createAnchor(path, anchorBusyTimeoutMs);
  return SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs: anchorBusyTimeoutMs });
}
