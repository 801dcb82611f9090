/** What the ledger of a deployment holds, read beside the service. */
import { readConfig } from "../../src/config/config.ts";
import { systemFiles } from "../../src/config/load.ts";
import { findReceipt } from "../../src/ledger/record/receipt.ts";
import { formatVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { storeBackend } from "../../src/stores/backends.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
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
