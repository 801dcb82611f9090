/** What the ledger of a deployment holds, read beside the service. */
import { randomFillSync } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { systemClock } from "../../src/base/clock.ts";
import { readConfig } from "../../src/config/config.ts";
import { systemFiles } from "../../src/config/load.ts";
import { findReceipt } from "../../src/ledger/record/receipt.ts";
import { formatVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { storeBackend } from "../../src/stores/backends.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { administer, type RecordsAdministration } from "../../src/stores/sql/records-administration.ts";
import type { TestStore } from "./stores.ts";

/** The record in the receipt of an answer. */
// biome-ignore lint/suspicious/noExplicitAny: records of many shapes are read, and fail where members are not there.
export function recordIn(answer: unknown): any {
  return JSON.parse(Buffer.from(findReceipt(answer)?.record ?? "", "base64").toString("utf8"));
}

/** The key of a log, as the operator hands it out. */
export function logKeyOf(keyFile: string, origin = ""): string {
  const [key] = readKeyFile(keyFile) ?? [];
  if (key === undefined) throw new Error(`no key in ${keyFile}`);
  return formatVerifierKey(origin, key.publicKey);
}

/** What commands open of the store. */
export async function backendOf({ settings }: Pick<TestStore, "settings">) {
  const result = readConfig(settings, undefined, { uses: "ledger", files: systemFiles });
  if ("problems" in result) throw new Error(result.problems.join("\n"));
  return storeBackend(result.config);
}

/** Does what an operator does to the records of the store. */
export async function administering<Result>(
  store: Pick<TestStore, "settings">,
  work: (administration: RecordsAdministration) => Promise<Result>,
): Promise<Result> {
  const database = await (await backendOf(store)).openDatabase("upkeep");
  const random = (bytes: Uint8Array) => randomFillSync(bytes);
  const administration = await administer(database, { clock: systemClock, random, pause: () => setImmediate() });
  return work(administration).finally(() => administration.close());
}
