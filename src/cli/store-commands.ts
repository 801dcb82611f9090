/** Commands about a store as a whole. */
import { setTimeout } from "node:timers/promises";
import { systemClock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { systemRandom } from "../base/ids.ts";
import type { StoreLocation } from "../base/postgres-url.ts";
import { read } from "../config/schema.ts";
import { storeLocation } from "../config/values.ts";
import { storeBackend } from "../stores/backends.ts";
import type { StoreDatabase } from "../stores/sql/backend.ts";
import { compactStore } from "../stores/sql/compact.ts";
import type { CopiedStore } from "../stores/sql/copy.ts";
import { command, loggedStepFlags, type Step } from "./frame/command.ts";
import { inStore, logLine, logMembers } from "./frame/store.ts";
import { type Answer, Refusal } from "./frame/terminal.ts";

/** Creates the store, or upgrades it to this program's schema. */
export const migrateCommand = command({
  name: "migrate",
  says: "create the store if it is missing, or upgrade it to this program's schema",
  options: { "--distributed": "spread the tables over the nodes of a Citus cluster, by tenant" },
  async run({ options: { distributed = false }, load }) {
    const config = load("migrate");
    const { version, applied } = await inStore(async () => {
      const backend = await storeBackend({ ...config, anchor: undefined });
      return backend.migrate({ random: systemRandom, distributed });
    });
    const done = applied.length === 0 ? "nothing to do" : `applied ${applied.join(", ")}`;
    return {
      value: { store: config.store.kind, schema_version: version, applied },
      text: `schema version ${version}: ${done}`,
    };
  },
});

export const storeBackupCommand = command({
  name: "store backup",
  says: "copy an embedded store, as it is at one moment, to a new file; a service may run on it",
  options: {
    "--to <file>": {
      says: "the copy; nothing may be there. Anchor and ledger key are not in it: keep them apart",
      required: true,
    },
  },
  async run({ options: { to }, load }) {
    const config = load("store");
    const { path, sizeBytes, storeId, logs } = await inStore(async () => (await storeBackend(config)).backUp(to));
    const described = logs.map(logMembers);
    const done = `${path}: ${sizeBytes} bytes, store ${storeId}; without its anchor and key`;
    return {
      value: { path, size_bytes: sizeBytes, store_id: storeId, logs: described },
      text: [...described.map(logLine), done].join("\n"),
    };
  },
});

const logNotEmpty =
  "the write-ahead log is not empty, because a reader holds an older state: run this again when it has ended";

/** Pause between two transactions, so that a waiting service gets its turn. */
const pauseMs = 40;

export const storeCompactCommand = command({
  name: "store compact",
  says: "remove answers to retries, proofs and counters that have expired; a service may run on it",
  options: {
    "--rewrite": "rewrite an embedded store's file too, without free pages: its callers are refused meanwhile",
  },
  async run({ options: { rewrite = false }, load, progress }) {
    const config = load("store");
    const upkeep = {
      nowMs: systemClock.now(),
      rewrite,
      pause: () => setTimeout(pauseMs),
      onProgress: progress,
    };
    const { removed, beforeBytes, afterBytes, isLogEmpty } = await inStore(async () => {
      await using database = await (await storeBackend(config)).openDatabase("upkeep");
      return await compactStore(database, upkeep);
    });
    const lines = [
      ...Object.entries(removed).map(([table, count]) => `${table}: ${count} expired rows removed`),
      `${beforeBytes} bytes before, ${afterBytes} after`,
    ];
    const log = isLogEmpty === undefined ? {} : { is_log_empty: isLogEmpty };
    return {
      value: { removed, before_bytes: beforeBytes, after_bytes: afterBytes, ...log },
      text: lines.join("\n"),
      problems: isLogEmpty === false ? [logNotEmpty] : [],
    };
  },
});

const stillSealed =
  "The target is not served. A sealed source stays sealed: run the command again, or take the seal off " +
  "with --abandon.";

export const storeCopyCommand = command({
  name: "store copy",
  says: "seal a store, move it to an empty one of the other kind, and verify every log there",
  options: {
    ...loggedStepFlags,
    "--from <url>": {
      says: "sqlite:<path> or postgres://…; SVC_ANCHOR and SVC_LEDGER_KEY are its anchor and its key",
      required: true,
    },
    "--to <url>": "the other kind of store, made by `migrate`; SVC_STORE_PASSWORD_FILE has the database's password",
    "--abandon": "take the seal of a copy that was not finished from the source, instead of copying",
  },
  async run({ options, load, progress }) {
    const { ledgerKey: keyPath, ...config } = load("store_copy");
    const from = locate("--from", options.from);
    const open = async (part: "source" | "target", store: StoreLocation, anchor: string | undefined) =>
      (await storeBackend({ ...config, store, anchor })).openDatabase(part);
    if (options.abandon === true) return abandon(nameOf(from), () => open("source", from, config.anchor));
    if (options.to === undefined) throw new Refusal("--to: is missing");
    const to = locate("--to", options.to);
    if (to.kind === from.kind) throw new Refusal("--to: must be a store of another kind than --from");
    const copy = async (isDryRun: boolean): Promise<CopiedStore> => {
      const { copyStore, previewCopy } = await import("../stores/sql/copy.ts");
      try {
        await using source = await open("source", from, config.anchor);
        await using target = await open("target", to, undefined);
        const result = await (isDryRun ? previewCopy : copyStore)({
          ...{ source, target, keyPath },
          clock: systemClock,
          random: systemRandom,
          onProgress: progress,
        });
        if (!("problems" in result)) return result;
        throw new Refusal([...result.problems, ...(isDryRun ? [] : [stillSealed])]);
      } catch (error) {
        throw error instanceof Refusal ? error : new Refusal([messageOf(error), ...(isDryRun ? [] : [stillSealed])]);
      }
    };
    return {
      question: `Seal ${nameOf(from)} for good, and continue its logs in the store of --to?`,
      preview: options.dryRun === true ? copyAnswer(await copy(true), true) : {},
      async take() {
        const copied = await copy(false);
        const logged = { source: nameOf(from), target_store_id: copied.targetStoreId };
        return { ...copyAnswer(copied, false), logged };
      },
    };
  },
});

/** Parses a URL. The Refusal does not repeat it, because a URL may contain a password. */
function locate(option: string, url: string): StoreLocation {
  const location = read(storeLocation, url);
  if ("problem" in location) throw new Refusal(`${option}: ${location.problem}`);
  return location.value;
}

/** Names a store without its password. */
function nameOf(store: StoreLocation): string {
  return store.kind === "sqlite" ? store.path : `the database ${store.target.database}`;
}

function copyAnswer({ targetStoreId, logs, wasFinished }: CopiedStore, isDryRun: boolean): Answer {
  const described = logs.map(logMembers);
  const done = wasFinished
    ? `the store was copied to ${targetStoreId} by an earlier run`
    : isDryRun
      ? `would be copied to the store ${targetStoreId}, and the source sealed for good`
      : `copied to the store ${targetStoreId}, which continues the logs; the source is sealed for good`;
  return {
    value: { target_store_id: targetStoreId, was_finished: wasFinished, logs: described },
    text: [...described.map((log) => `ok ${logLine(log)}`), done].join("\n"),
  };
}

async function abandon(name: string, open: () => Promise<StoreDatabase>): Promise<Step> {
  const { abandonCopy, hasBrokenSeal } = await import("../stores/sql/copy.ts");
  const withSource = async (work: (source: StoreDatabase) => Promise<boolean>): Promise<boolean> => {
    await using source = await open();
    return await work(source);
  };
  const isOn = await withSource(hasBrokenSeal);
  return {
    question: `Take the seal off ${name}? What a copy has brought to another store is worth nothing then.`,
    preview: {
      value: { is_sealed: isOn },
      text: isOn ? `the seal would be taken off ${name}` : `${name} is not sealed`,
    },
    async take() {
      const wasSealed = await withSource(abandonCopy);
      return {
        value: { was_sealed: wasSealed },
        text: wasSealed ? `the seal is off ${name}` : `${name} was not sealed`,
        logged: { command: "store copy --abandon", source: name, was_sealed: wasSealed },
      };
    },
  };
}
