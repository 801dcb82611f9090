/**
 * Checks of this machine and of other systems. The machine: runtime, settings, files and their permissions, disk space,
 * policies. Other systems: issuers, witnesses and the store, and their clocks.
 */
import { X509Certificate } from "node:crypto";
import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import * as fileSystem from "node:fs/promises";
import { dirname, resolve } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import { askIssuer } from "../../auth/introspection.ts";
import { createIssuerFetch, discover, fetchKeySet } from "../../auth/issuer-documents.ts";
import { parseSessionKeys } from "../../auth/session-tokens.ts";
import { systemClock } from "../../base/clock.ts";
import { createSemaphore } from "../../base/fair-queue.ts";
import { fetchProblem } from "../../base/fetched.ts";
import type { IntrospectionRule, IssuerEntry } from "../../base/issuers.ts";
import { certificatesIn } from "../../base/text-forms.ts";
import { systemTimers } from "../../base/timers.ts";
import type { ConfigFor } from "../../config/config.ts";
import { parseIssuerFile } from "../../config/data-files.ts";
import { openSecretFiles } from "../../config/files.ts";
import { loadTracing, systemFiles } from "../../config/load.ts";
import { settings } from "../../config/settings.ts";
import { parseOpsCredentials } from "../../credentials/ops-credentials.ts";
import { parseClientFile } from "../../credentials/session-clients.ts";
import { describeUndone } from "../../ledger/audit/undone-erasures.ts";
import { originPrefixProblem } from "../../ledger/tlog/log-name.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { loadPolicyDirectory } from "../../policy/check/check.ts";
import { engineOf } from "../../policy/engine/engine.ts";
import { describeProblem } from "../../policy/model/problem.ts";
import { IncompatibleStoreError } from "../../stores/files/errors.ts";
import { readKeyFile } from "../../stores/files/key-file.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import { copyProblem } from "../../stores/sql/store-checks.ts";
import { misplacedProblem, type StorePaths, sqlitePaths } from "../../stores/sqlite/paths.ts";
import { requireOwnLog } from "../../stores/sqlite/wal-binding.ts";
import type { Context } from "../frame/command.ts";
import { inStore, withArchive } from "../frame/store.ts";
import { answerOfError, Refusal } from "../frame/terminal.ts";
import type { Check, Findings } from "./finding.ts";

/** The version that the packages install. */
const neededNode = 26;

export const runtime: Check = {
  remedy: `start it with Node ${neededNode} or later: the packages bring one (npm exec -- node)`,
  look(found) {
    const { node } = process.versions;
    const detail = `svc-platform-api ${packageFile.version} on Node ${node}`;
    if (Number.parseInt(node, 10) < neededNode) found.failed(detail);
    else found.ok(detail);
  },
};

export const settingsCheck = (load: Context["load"]): Check => ({
  remedy: "set it as docs/reference/settings.md says, in the environment or in the file of --config",
  async look(found) {
    const traces = loadTracing();
    for (const problem of await settingProblems(load)) found.failed(problem);
    for (const problem of "problems" in traces ? traces.problems : []) found.failed(problem);
    if (found.all.length === 0) found.ok("are complete, and the files that they name hold what they should");
    for (const warning of "warnings" in traces ? traces.warnings : [])
      found.warning(warning, "docs/tracing.md, Variables");
  },
});

/** Includes files whose content only the start of the service validates. */
async function settingProblems(load: Context["load"]): Promise<readonly string[]> {
  let config: ConfigFor<"serve">;
  try {
    config = load("serve");
  } catch (error) {
    return answerOfError(error).problems ?? [];
  }
  const { bundle } = await loadPolicyDirectory(config.policyDir, fileSystem, config);
  const parsers = {
    sessionClients: (text: string) => parseClientFile(text, bundle?.callerAttributes),
    sessionKey: parseSessionKeys,
    opsCredentials: parseOpsCredentials,
  };
  const problems: string[] = [];
  for (const [key, parse] of Object.entries(parsers) as [keyof typeof parsers, (text: string) => unknown][])
    try {
      const path = config[key];
      if (path !== undefined) await parse(systemFiles.readText(path));
    } catch (error) {
      problems.push(`${settings[key].name}: ${error instanceof Error ? error.message : "cannot be read"}`);
    }
  return problems;
}

/** Below this free share, a file system may soon have no room for records. */
const leastFree = 0.05;
const soonMs = 30 * 24 * 60 * 60_000;

export const files: Check = {
  remedy: "let the user that the service runs as reach them",
  look(found) {
    const config = found.load("serve");
    for (const { key, message } of openSecretFiles(config, systemFiles))
      found.warning(`${settings[key].name}: ${message}`, "chmod 0600, or 0640 for a group that reads it");
    for (const [folder, name] of writtenFolders(config)) lookAtFolder(found, name, folder);
    for (const key of ["tlsCert", "opsTlsCert", "tlsClientCa", "oidcCa"] as const)
      lookAtCertificates(found, config, key);
    if (found.all.length === 0) found.ok("the service can write where it must, and has room");
  },
};

/** Folders of the files that the service writes, each once, with a setting that names it. */
function writtenFolders({ store, anchor, ledgerKey }: ConfigFor<"serve">): ReadonlyMap<string, string> {
  const anchorPath = store.kind === "sqlite" ? sqlitePaths(store.path, anchor).anchorPath : anchor;
  const named = [
    ...(store.kind === "sqlite" ? [["SVC_STORE", store.path] as const] : []),
    ...(anchorPath === undefined ? [] : [["SVC_ANCHOR", anchorPath] as const]),
    ...(existsSync(ledgerKey) ? [] : [["SVC_LEDGER_KEY", ledgerKey] as const]),
  ];
  return new Map(named.map(([name, path]) => [nearest(dirname(resolve(path))), name]));
}

/** The folder, or its nearest existing ancestor; missing ones will be created. */
function nearest(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearest(dirname(folder));
}

function lookAtFolder(found: Findings, name: string, folder: string): void {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch {
    found.failed(`${name}: ${folder} cannot be written to`, "let the user that the service runs as write to it");
    return;
  }
  const { bavail, blocks } = statfsSync(folder);
  const percent = Math.floor((100 * bavail) / blocks);
  if (blocks > 0 && bavail / blocks < leastFree)
    found.warning(`${name}: ${folder} has ${percent} % free`, "make room: calls are answered 503 when it is full");
}

function lookAtCertificates(
  found: Findings,
  config: ConfigFor<"serve">,
  key: "tlsCert" | "opsTlsCert" | "tlsClientCa" | "oidcCa",
): void {
  const path = config[key];
  if (path === undefined) return;
  const nowMs = systemClock.now();
  for (const pem of certificatesIn(systemFiles.readText(path))) {
    const { subject, validFromDate, validToDate } = new X509Certificate(pem);
    const named = `${settings[key].name}: the certificate of ${subject.replaceAll("\n", ", ")}`;
    const remedy = "put one in its place that is valid now";
    if (validToDate.getTime() <= nowMs) found.failed(`${named} ended on ${validToDate.toISOString()}`, remedy);
    else if (validFromDate.getTime() > nowMs)
      found.failed(`${named} begins on ${validFromDate.toISOString()}`, `${remedy}, or set the clock right`);
    else if (validToDate.getTime() <= nowMs + soonMs)
      found.warning(`${named} ends on ${validToDate.toISOString()}`, "renew it");
  }
}

export const policy: Check = {
  remedy: "`policy check` says the same beside the files; until it is right the service does not start with it",
  async look(found) {
    const { policyDir } = found.load("policy_directory");
    const loaded = await loadPolicyDirectory(policyDir, fileSystem, found.load("policy"));
    for (const problem of loaded.problems ?? []) found.failed(describeProblem(problem));
    if (loaded.bundle === undefined) return;
    const { policies, revision } = engineOf(loaded.bundle);
    found.ok(`${policies.length} policies, revision ${revision}`);
  },
};

// Other systems.

/** Time limit of one exchange, in milliseconds; the service's is not longer. */
const exchangeTimeoutMs = 5_000;
/** Concurrent checks of issuers. */
const maximumExchanges = 16;

/** What to do, by words of a failure. */
type Remedies = readonly (readonly [RegExp, string])[];

/** Remedies of a failed exchange; `{}` stands for the other system. */
const exchangeRemedies: Remedies = [
  [/ENOTFOUND|EAI_AGAIN/, "correct the host name of {} in the settings, or this machine's DNS"],
  [/ECONNREFUSED/, "start {}, or correct its port in the settings"],
  [
    /ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ECONNRESET|no answer within|aborted/,
    "open the network from this machine to {}",
  ],
  [/CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/, "renew the certificate of {}, or set this machine's clock right"],
  [/ALTNAME_INVALID/, "use a host name for {} that its certificate has"],
  [/WRONG_VERSION_NUMBER|EPROTO/, "the port of {} does not speak TLS: correct the port, or the scheme"],
];
const authorityUnknown = /SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/;

/** The remedy among a system's own and those of exchanges. Undefined if no table knows the failure's words. */
function exchangeRemedy(detail: string, system: string, own: Remedies): string | undefined {
  return [...own, ...exchangeRemedies].find(([words]) => words.test(detail))?.[1].replace("{}", system);
}

const issuerRemedies: Remedies = [
  [authorityUnknown, "set SVC_OIDC_CA to the PEM file of the authority that issued the issuer's certificate"],
  [/names another issuer/, "set the issuer as the `issuer` member of its discovery document spells it, byte for byte"],
  [
    /status 404/,
    "correct the path of the issuer: its discovery document is below it, at .well-known/openid-configuration",
  ],
  [/introspection cannot be fetched: status 40[0-3]/, "register client_id and its secret or certificate at the issuer"],
  [/no signature keys/, "have the issuer publish a signature key: RSA, EC or Ed25519, with use `sig` or none"],
];

function issuerRemedy(detail: string): string {
  return `${exchangeRemedy(detail, "the issuer", issuerRemedies) ?? "correct it at the issuer"}; ${untilThen}`;
}

const untilThen = "until then every call with its tokens is answered 503";

export const issuer: Check = {
  remedy: "see which issuers the settings name",
  async look(found, signal) {
    const config = found.load("issuer");
    const { authMode, oidcIssuer, oidcIssuers } = config;
    if (authMode === "trusted_headers" || (oidcIssuers ?? oidcIssuer) === undefined)
      found.skip("no issuer's tokens are taken");
    const entries: readonly Pick<IssuerEntry, "issuer" | "introspection">[] =
      oidcIssuers === undefined
        ? [{ issuer: oidcIssuer as string }]
        : parseIssuerFile(systemFiles.readText(oidcIssuers), config);
    const authorities = config.oidcCa;
    const slots = createSemaphore(maximumExchanges, entries.length);
    await Promise.all(entries.map((entry) => slots.run(() => lookAtIssuer(found, entry, authorities, signal), signal)));
  },
};

const leftOutRemedy = "have the issuer publish keys that can be used; tokens that the others sign are refused";

async function lookAtIssuer(
  found: Findings,
  { issuer: name, introspection }: Pick<IssuerEntry, "issuer" | "introspection">,
  authorities: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const clock = new ToldTime(`the issuer ${name}`);
  const readAuthorities = authorities === undefined ? undefined : async () => systemFiles.readText(authorities);
  const fetch = clock.timed(createIssuerFetch(globalThis.fetch, readAuthorities));
  const context = { fetch, timers: systemTimers, signal };
  try {
    if (introspection === undefined) await lookAtKeys(found, name, context);
    else await lookAtIntrospection(found, name, introspection, context);
    clock.tell(found);
  } catch (error) {
    const detail = `${name}: ${error instanceof Error ? error.message : "unknown error"}`;
    found.failed(detail, issuerRemedy(detail));
  }
}

type Exchange = Parameters<typeof fetchKeySet>[1];

async function lookAtKeys(found: Findings, name: string, context: Exchange): Promise<void> {
  const { keySetUrl } = await discover(name, context);
  const { keys, remark } = await fetchKeySet(keySetUrl, context);
  const counted = `${name} publishes ${keys.length === 0 ? "no" : keys.length} signature keys`;
  const detail = remark === undefined ? counted : `${counted}; ${remark}`;
  if (keys.length === 0) found.failed(detail, issuerRemedy(detail));
  else if (remark === undefined) found.ok(detail);
  else found.warning(detail, leftOutRemedy);
}

/** Introspects a token that does not exist; an issuer that knows the client answers so. */
async function lookAtIntrospection(found: Findings, name: string, rule: IntrospectionRule, context: Exchange) {
  const readFile = async (path: string) => systemFiles.readText(path);
  const { active } = await askIssuer(`${rule.tokenPrefix}no-such-token`, rule, { ...context, readFile });
  if (active !== false) throw new Error("it calls a token active that was never issued");
  found.ok(`${name} answers about tokens`);
}

export const witnesses: Check = {
  remedy: "see which witnesses SVC_WITNESSES names",
  async look(found, deadline) {
    const config = found.load("witnesses");
    if (config.witnesses.length === 0) found.skip("none are set");
    await Promise.all(config.witnesses.map(({ url }) => lookAtWitness(found, url, deadline)));
  },
};

const witnessRemedies: Remedies = [
  [authorityUnknown, "set NODE_EXTRA_CA_CERTS to the PEM file of the authority that issued the witness's certificate"],
];

function witnessRemedy(detail: string): string {
  const remedy = exchangeRemedy(detail, "the witness", witnessRemedies) ?? "ask the operator of the witness";
  return `${remedy}; if answers wait for a quorum, calls are answered 503 until enough witnesses cosign`;
}

/** Requests nothing that the witness would store: any answer is enough. */
async function lookAtWitness(found: Findings, url: string, deadline: AbortSignal): Promise<void> {
  const clock = new ToldTime(`the witness ${url}`);
  const signal = AbortSignal.any([deadline, AbortSignal.timeout(exchangeTimeoutMs)]);
  try {
    const answer = await clock.timed(fetch)(url, { redirect: "manual", signal });
    await answer.body?.cancel();
    const failure = `${url} answers with status ${answer.status}`;
    if (answer.status >= 500) return found.failed(failure, witnessRemedy(failure));
    found.ok(`${url} answers`);
    clock.tell(found);
  } catch (error) {
    const failure = `${url} does not answer: ${fetchProblem(error)}`;
    found.failed(failure, witnessRemedy(failure));
  }
}

/** Keeps the first `Date` of another system's answers (RFC 9110 §6.6.1), which has whole seconds. */
class ToldTime {
  readonly #whose: string;
  #told: readonly [theirMs: number, beforeMs: number, afterMs: number] | undefined;

  constructor(whose: string) {
    this.#whose = whose;
  }

  /** The function, with the time of its answers kept. */
  timed<Init>(
    fetch: (url: URL, init: Init) => Promise<Response>,
  ): (url: URL | string, init: Init) => Promise<Response> {
    return async (url, init) => {
      const beforeMs = systemClock.now();
      const response = await fetch(new URL(url), init);
      const theirMs = Date.parse(response.headers.get("date") ?? "");
      // `Date` is rounded down to whole seconds.
      if (!Number.isNaN(theirMs)) this.#told ??= [theirMs, beforeMs - 1_000, systemClock.now()];
      return response;
    };
  }

  tell(found: Findings): void {
    if (this.#told !== undefined) found.clock(this.#whose, ...this.#told);
  }
}

const reachRemedy: Readonly<Record<"sqlite" | "postgres", string>> = {
  sqlite: "put the right file there, readable for the user that the service runs as: docs/operations.md, Restore",
  postgres:
    "let this machine reach the database, with the user and password of the settings; `migrate` makes its tables",
};

const databaseRemedies: Remedies = [
  [
    /password authentication failed|no password|28P01/,
    "correct the user of SVC_STORE, or the password in SVC_STORE_PASSWORD_FILE",
  ],
  [
    /database "[^"]*" does not exist|3D000/,
    "create the database, or correct its name in SVC_STORE; then run `migrate`",
  ],
  [
    /permission denied|42501/,
    "grant the user what docs/postgresql.md lists, or run `migrate` as the owner of the tables",
  ],
  [
    authorityUnknown,
    "set sslrootcert in SVC_STORE to the PEM file of the authority that issued the database's certificate",
  ],
];

const keyRemedy = "put the key back that signed the logs: without it none of them goes on";
const copyRemedy = "set SVC_STORE to the store that continues the logs, or end the copy: docs/postgresql.md";
const originRemedy = "set it to the prefix of the logs, or SVC_STORE to a store of this prefix";

/** Checks that the store exists, can be reached, and matches its anchor, its key and the clock. */
export const store: Check = {
  remedy: "see whether the database, or the file system, hangs",
  async look(found) {
    const config = found.load("ledger_start");
    const remedy = reachRemedy[config.store.kind];
    try {
      const { store } = config;
      if (store.kind === "sqlite") {
        const paths = sqlitePaths(store.path, config.anchor);
        if (!existsSync(store.path)) return await inStore(async () => lookAtMissing(found, paths, config.ledgerKey));
        await inStore(async () => requireOwnLog(store.path));
      }
      await withArchive(found, ({ archive }) => inStore(() => examine(found, archive, config)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      found.failed(error.message, exchangeRemedy(error.message, "the database", databaseRemedies) ?? remedy);
    }
  },
};

/** Throws as a start does; without a store, a start makes one. */
function lookAtMissing(found: Findings, { path, anchorPath }: StorePaths, keyPath: string): void {
  if (existsSync(anchorPath)) throw new Refusal(`${path} is missing, and its anchor ${anchorPath} exists`);
  const misplaced = misplacedProblem(path, keyPath);
  if (misplaced !== undefined) throw new IncompatibleStoreError(misplaced);
  const detail = `${path} does not exist yet: the first start creates it`;
  if (readKeyFile(keyPath) === undefined) found.ok(detail);
  else found.warning(`${detail}, and the ledger key is older`, "correct SVC_STORE, unless a new store is meant");
}

async function examine(
  found: Findings,
  archive: OperatorArchive,
  { ledgerKey, ledgerOrigin }: ConfigFor<"ledger_start">,
): Promise<void> {
  const beforeMs = systemClock.now();
  const theirMs = await archive.clockMs();
  if (theirMs !== undefined) found.clock("the database", theirMs, beforeMs, systemClock.now());
  const before = found.all.length;
  const logs = await archive.logs();
  const records = logs.reduce((sum, { size }) => sum + size, 0);
  const copied = copyProblem(await archive.copyState());
  if (copied !== undefined) found.failed(`SVC_STORE: ${copied}`, copyRemedy);
  const origins = logs.map(({ origin }) => origin);
  const foreign = ledgerOrigin === undefined ? undefined : originPrefixProblem(origins, ledgerOrigin);
  if (foreign !== undefined) found.failed(`SVC_LEDGER_ORIGIN: ${foreign}`, originRemedy);
  for (const { message } of await archive.anchorProblems())
    found.failed(message, "nothing may be signed like this: docs/operations.md, Restore");
  for (const line of describeUndone(await archive.undoneErasures()))
    found.warning(line, "`ledger reapply-erasures` erases them again");
  const newest = (await archive.signingKeys()).at(-1);
  const keys = readKeyFile(ledgerKey);
  if (newest !== undefined && keys === undefined) found.failed(`SVC_LEDGER_KEY: ${ledgerKey} is missing`, keyRemedy);
  else if (newest !== undefined && !keys?.some(({ publicKey }) => sameHash(publicKey, newest)))
    found.failed(`SVC_LEDGER_KEY: ${ledgerKey} does not have the key that signs the logs`, keyRemedy);
  await lookAtTimes(found, archive);
  if (found.all.length === before) found.ok(`logs: ${logs.length}, leaves: ${records}, as far as their anchor knows`);
}

/** A log ahead of the clock prevents a start, unless an operator has accepted its time. */
async function lookAtTimes(found: Findings, archive: OperatorArchive): Promise<void> {
  const nowMs = systemClock.now();
  const logs = await archive.logsAhead(nowMs);
  if (logs.length === 0) return;
  const newestMs = logs.reduce((newest, { lastRecordedAtMs }) => Math.max(newest, lastRecordedAtMs), 0);
  const detail = `the newest record is of ${new Date(newestMs).toISOString()}, and this clock says ${new Date(nowMs).toISOString()}`;
  found.failed(detail, "set the clock right; if that of the record was wrong, `ledger clock accept`", "clock");
}
