/** Checks before a store may be written to: schema, anchor and key. */
import { existsSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill } from "../../base/ids.ts";
import type { UndoneErasure } from "../../ledger/ports/records-administration.ts";
import { originPrefixProblem } from "../../ledger/tlog/log-name.ts";
import { openAnchor, readAnchor, type SqliteAnchor } from "../files/anchor.ts";
import { openConnection, readStoreId } from "../files/connection.ts";
import { requireSafeBlocks } from "../files/database-file.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import type { SigningKeys } from "../files/key-file.ts";
import { appendBatches } from "../sql/appending.ts";
import { findUndone } from "../sql/erasure.ts";
import { KeyRing } from "../sql/key-ring.ts";
import { heads } from "../sql/log-rows.ts";
import { LogTools } from "../sql/log-tools.ts";
import { admitKeys, checkAnchor, checkTimes } from "../sql/prepare.ts";
import { SigningKeysOfStore } from "../sql/signing-keys.ts";
import { migrateSqlite, requireUnsealed } from "./migrate.ts";
import { noteErasures } from "./noted-erasures.ts";
import type { StorePaths } from "./paths.ts";
import { SqliteQueries, transactOn } from "./queries.ts";

export interface PrepareOptions extends StorePaths {
  /** Prefix of the origins of new logs. */
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** How long to wait for a concurrent start on the same store. Milliseconds. */
  readonly busyTimeoutMs: number;
}

export interface PreparedStore {
  readonly keys: SigningKeys;
  /** Erasures to carry out again; readers get "erased" until then. */
  readonly undone: readonly UndoneErasure[];
  /** Identity of the store. */
  readonly storeId: string;
}

/**
 * Brings the store to this program's schema, checks every log against the anchor, and loads the keys. A key is made
 * only if store and anchor are both empty. Concurrent starts take turns. Throws `IncompatibleStoreError` naming every
 * problem; nothing may be signed then.
 */
export async function prepareStore(options: PrepareOptions): Promise<PreparedStore> {
  const { path, anchorPath, busyTimeoutMs } = options;
  requireAnchoredStore(options);
  for (const each of [path, anchorPath]) requireSafeBlocks(each);
  migrateSqlite(options);
  using anchor = openAnchor(anchorPath, busyTimeoutMs);
  using connection = openConnection({ path, busyTimeoutMs, readOnly: false });
  const queries = new SqliteQueries(connection);
  const keys = await transactOn(connection, async () => {
    // Again, under the lock: a copy to this store may have begun meanwhile.
    requireUnsealed(connection, path);
    await checkOwnAnchor(queries, anchor, anchorPath);
    await checkOrigins(queries, options.originPrefix);
    await checkTimes(queries, options.clock.now());
    const keys = await admitKeys(queries, { ...options, anchor });
    await handOverLogs(queries, anchor, options, keys);
    return keys;
  });
  // A rotation has moved the heads.
  anchor.advance(await heads(queries));
  const undone = await findUndone(queries, anchor.erasures());
  noteErasures(connection, anchor);
  return { keys, undone, storeId: readStoreId(connection) };
}

/** A missing store is not replaced by an empty one if its anchor notes logs. */
function requireAnchoredStore({ path, anchorPath }: PrepareOptions): void {
  if (existsSync(path)) return;
  using anchor = readAnchor(anchorPath);
  if (anchor?.storeId() === undefined) return;
  throw new IncompatibleStoreError(
    `${path} is missing, and its anchor ${anchorPath} is there: put the newest store back. Where there is none any ` +
      "more, start with an empty store and another anchor (SVC_STORE, SVC_ANCHOR); the old anchor says what was lost.",
  );
}

/** A store that had an anchor is not served without it. */
async function checkOwnAnchor(queries: SqliteQueries, anchor: SqliteAnchor, anchorPath: string): Promise<void> {
  const { connection } = queries;
  const hadAnchor = connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
  if (hadAnchor && anchor.storeId() === undefined)
    throw new IncompatibleStoreError(
      `${anchorPath} is new, but this store had an anchor: without it, nothing shows whether the store is an older ` +
        "copy. Put the anchor back, or set SVC_ANCHOR to it; if it is lost, see `ledger anchor adopt`.",
    );
  await checkAnchor(queries, anchor, anchorPath);
  // Also of a store that was restored from a copy that is older than this flag.
  connection.exec("UPDATE store SET anchored = 1");
}

async function checkOrigins(queries: SqliteQueries, originPrefix: string): Promise<void> {
  const origins = (await heads(queries)).map(({ origin }) => origin);
  const problem = originPrefixProblem(origins, originPrefix);
  if (problem !== undefined) throw new IncompatibleStoreError(problem);
}

/** Appends a leaf to every log that hands it over to the current key: the old one is valid up to that leaf only. */
async function handOverLogs(
  queries: SqliteQueries,
  anchor: SqliteAnchor,
  { clock, random, keyPath }: PrepareOptions,
  admitted: SigningKeys,
): Promise<void> {
  const keys = new SigningKeysOfStore(new KeyRing(admitted, { keyPath, logger: undefined }));
  await keys.follow(queries);
  // Every log exists, so no origin is made here.
  const tools = new LogTools({ anchor, originPrefix: "", clock, random, keys });
  for (const { tenantId, keyPosition } of await heads(queries))
    if (keyPosition < keys.position)
      await appendBatches(queries, [{ tenantId, records: [] }], { taking: "apart", tools });
}
