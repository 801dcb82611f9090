/** Whether the store can be served: that it is there and reached, and fits its anchor, its key and the clock. */
import { existsSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { loadConfig } from "../../config/load.ts";
import type { ConfigFor } from "../../config/uses.ts";
import { describeUndone } from "../../ledger/audit/undone-erasures.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { storeBackend } from "../../stores/backends.ts";
import { readKeyFile } from "../../stores/key-file.ts";
import { sqlitePaths } from "../../stores/sqlite/paths.ts";
import { logsAhead } from "../ledger/clock-command.ts";
import { storeProblem } from "../store.ts";
import { type Check, clockFinding, type Finding, failed, ok, skipped, warning } from "./finding.ts";

const reachRemedy: Readonly<Record<"sqlite" | "postgres", string>> = {
  sqlite: "put the right file there, readable for the user that the service runs as: docs/operations.md, Restore",
  postgres:
    "let this machine reach the database, with the user and password of the settings; `migrate` makes its tables",
};
const keyRemedy = "put the key back that signed the logs: without it none of them goes on";

export function storeCheck(configPath: string | undefined): Check {
  return {
    name: "store",
    remedy: "see whether the database, or the file system, hangs",
    async look() {
      const loaded = loadConfig("ledger", configPath);
      if (!("config" in loaded)) return [skipped("store", "its settings are wrong")];
      const { config } = loaded;
      const missing = missingFile(config);
      if (missing !== undefined) return [missing];
      let archive: StoreArchive;
      try {
        archive = await (await storeBackend(config)).openArchive();
      } catch (error) {
        return [failed("store", storeProblem(error), reachRemedy[config.store.kind])];
      }
      try {
        return await examine(archive, config);
      } finally {
        await archive.close();
      }
    },
  };
}

function missingFile({ store, ...paths }: ConfigFor<"ledger">): Finding | undefined {
  if (store.kind !== "sqlite" || existsSync(store.path)) return undefined;
  const { anchorPath } = sqlitePaths(store.path, paths);
  return existsSync(anchorPath)
    ? failed("store", `${store.path} is missing, and its anchor ${anchorPath} is there`, reachRemedy.sqlite)
    : ok("store", `${store.path} is not there yet: the first start makes it`);
}

async function examine(archive: StoreArchive, config: ConfigFor<"ledger">): Promise<readonly Finding[]> {
  const beforeMs = systemClock.now();
  const theirMs = await archive.clockMs();
  const clocks = theirMs === undefined ? [] : [clockFinding("the database", theirMs, beforeMs, systemClock.now())];
  const logs = await archive.logs();
  const records = logs.reduce((sum, { size }) => sum + size, 0);
  const anchored = (await archive.anchorProblems()).map(({ message }) =>
    failed("store", message, "nothing may be signed like this: docs/operations.md, Restore"),
  );
  const undone = describeUndone(await archive.undoneErasures()).map((line) =>
    warning("store", line, "`ledger reapply-erasures` erases them again"),
  );
  const findings = [...anchored, ...undone, ...(await keyFindings(archive, config)), ...(await ahead(archive))];
  return [
    ...clocks,
    ...(findings.length > 0
      ? findings
      : [ok("store", `${logs.length} logs with ${records} leaves, as far as their anchor says`)]),
  ];
}

async function keyFindings(archive: StoreArchive, { ledgerKey }: ConfigFor<"ledger">): Promise<readonly Finding[]> {
  const newest = (await archive.signingKeys()).at(-1);
  const keys = readKeyFile(ledgerKey);
  if (newest === undefined) return [];
  if (keys === undefined) return [failed("store", `SVC_LEDGER_KEY: ${ledgerKey} is missing`, keyRemedy)];
  if (keys.some(({ publicKey }) => sameHash(publicKey, newest))) return [];
  return [failed("store", `SVC_LEDGER_KEY: ${ledgerKey} does not have the key that signs the logs`, keyRemedy)];
}

/** A log that is ahead of the clock stops a start, unless an operator has accepted its time. */
async function ahead(archive: StoreArchive): Promise<readonly Finding[]> {
  const nowMs = systemClock.now();
  const logs = await logsAhead(archive, nowMs);
  if (logs.length === 0) return [];
  const newestMs = logs.reduce((newest, { lastRecordedAtMs }) => Math.max(newest, lastRecordedAtMs), 0);
  const detail = `the newest record is of ${new Date(newestMs).toISOString()}, and this clock says ${new Date(nowMs).toISOString()}`;
  return [failed("clock", detail, "set the clock right; if that of the record was wrong, `ledger clock accept`")];
}
