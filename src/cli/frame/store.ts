/** The store of a command, with or without a running service. */
import { setTimeout } from "node:timers/promises";
import { systemClock } from "../../base/clock.ts";
import { messageWithCause } from "../../base/errors.ts";
import { parseRecordId, parseTenantId, systemRandom } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { listed } from "../../base/visible-text.ts";
import type { ConfigFor } from "../../config/config.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { storeBackend } from "../../stores/backends.ts";
import { settingOf } from "../../stores/files/errors.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import type { RecordsAdministration } from "../../stores/sql/records-administration.ts";
import { type Context, reasonProblems } from "./command.ts";
import { Refusal } from "./terminal.ts";

/** Does work with a store; turns errors into a Refusal that names the setting. */
export function inStore<Result>(work: () => Promise<Result>): Promise<Result> {
  return work().catch((error: unknown) => {
    if (error instanceof Refusal) throw error;
    const message = messageWithCause(error);
    // SQLite's words, which are all that is left of its code.
    const advice = message.endsWith("database is locked")
      ? ". Another process writes to it: try again, or stop that"
      : "";
    throw new Refusal(`${settingOf(error)}: ${message}${advice}`);
  });
}

/** Opens a part of a store, and closes it after the work. Throws a Refusal if it cannot be opened. */
export async function withOpened<Opened extends { close(): Promise<void> }, Result>(
  open: () => Promise<Opened>,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const opened = await inStore(open);
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

export interface OpenedStore {
  readonly archive: OperatorArchive;
  /** Path of the file with the keys that sign checkpoints. */
  readonly keyPath: string;
  /** Looks at the store as it is now. */
  now<Result>(look: (archive: OperatorArchive) => Promise<Result>): Promise<Result>;
  /** The witnesses to ask before a state is signed: without an anchor file, they alone know what was answered. */
  witnesses(): ConfigFor<"witnesses">["witnesses"];
}

/** Does work with the store of the settings, opened for reading. */
export async function withArchive<Result>(
  { load }: Pick<Context, "load">,
  look: (opened: OpenedStore) => Promise<Result>,
): Promise<Result> {
  const config = load("ledger");
  const hasFile = config.store.kind === "sqlite" || config.anchor !== undefined;
  const now: OpenedStore["now"] = (work) => withOpened(async () => (await storeBackend(config)).openArchive(), work);
  const witnesses = () => (hasFile ? [] : load("witnesses").witnesses);
  return now((archive) => look({ archive, keyPath: config.ledgerKey, now, witnesses }));
}

/** Pause in which a waiting service gets its turn. */
const pauseMs = 100;

/** The same, to erase and hold records. */
export async function withAdministration<Result>(
  { load }: Pick<Context, "load">,
  work: (administration: RecordsAdministration) => Promise<Result>,
): Promise<Result> {
  const config = load("ledger");
  const tools = { clock: systemClock, random: systemRandom, pause: () => setTimeout(pauseMs) };
  const open = async () => {
    const { administer } = await import("../../stores/sql/records-administration.ts");
    return administer(await (await storeBackend(config)).openDatabase("upkeep"), tools);
  };
  return withOpened(open, work);
}

/** The logs of a command: the tenant's, or all of them. A tenant without a log may be mistyped: throws a Refusal. */
export async function logsOf(archive: OperatorArchive, tenant: string | undefined): Promise<readonly LogState[]> {
  const logs = (await archive.logs()).filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
  if (logs.length === 0 && tenant !== undefined) throw new Refusal(`tenant ${tenant} has no log`);
  return logs;
}

/** The option of commands that read one log; most development stores have only one. */
export const oneTenantFlag = "whose records; may be left out if the store has the log of one tenant only";

/** The log of a command: the tenant's, or the only one. */
export async function logOf(archive: OperatorArchive, tenant: string | undefined): Promise<LogState> {
  const logs = await logsOf(archive, tenant);
  const [log, ...others] = logs;
  if (log === undefined) throw new Refusal("the store has no log yet");
  if (others.length === 0) return log;
  const names = listed(logs.map(({ tenantId }) => tenantId));
  throw new Refusal(`--tenant: is required: the store has logs of ${logs.length} tenants: ${names}`);
}

/** Names of tenants and records on the command line. */
interface Named {
  readonly tenant?: string | undefined;
  readonly record?: readonly string[] | undefined;
  readonly reason?: string | undefined;
}

/** Parses the names, records each once and in the order given. Throws a Refusal that lists all invalid ones. */
export function parseNames({ tenant, record = [], reason }: Named) {
  const tenantId = tenant === undefined ? undefined : parseTenantId(tenant);
  const recordIds = record.map((text) => parseRecordId(text));
  const problems = [
    ...(tenant !== undefined && tenantId === undefined ? ["--tenant: is not a tenant id"] : []),
    ...record.flatMap((text, i) =>
      recordIds[i] === undefined ? [`--record: ${JSON.stringify(text)} is not a record id`] : [],
    ),
    ...reasonProblems(reason),
  ];
  if (problems.length > 0) throw new Refusal(problems);
  return { tenantId, recordIds: [...new Set(recordIds.flatMap((id) => id ?? []))] };
}

/** A log's state, for machines. */
export function logMembers({ tenantId, origin, size, root }: Pick<LogState, "tenantId" | "origin" | "size" | "root">) {
  return { tenant_id: tenantId, origin, tree_size: size, root: formatBase64(root) };
}

/** The same for people. */
export function logLine({ origin, tenant_id, tree_size, root }: ReturnType<typeof logMembers>): string {
  return `${origin} (tenant ${tenant_id}): ${tree_size} leaves, root ${root}`;
}
