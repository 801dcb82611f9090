/** The anchor in a file, which the replicas of one machine share. */
import { anchorConnection, createAnchor, SqliteAnchor } from "../../sqlite/log/anchor.ts";

/** Short, because the event loop waits with it. Replicas hold the lock for microseconds. */
const busyTimeoutMs = 500;

/**
 * Opens the file, and creates it where it is missing. Throws `IncompatibleStoreError` where it is something else, a
 * file system or SQLite error where it cannot be used.
 */
export function openFileAnchor(path: string): SqliteAnchor {
  createAnchor(path, busyTimeoutMs);
  return SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs });
}
