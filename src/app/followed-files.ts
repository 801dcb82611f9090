/**
 * Files that a running service reloads when they change: certificates, keys, secrets and credential lists that settings
 * name. All are read, checked, put in force, logged and counted in the same way.
 */
import { readFile, stat } from "node:fs/promises";
import { securityFields } from "../base/security-events.ts";
import type { Timers } from "../base/timers.ts";
import type { ConfigFor } from "../config/config.ts";
import { fileProblems } from "../config/files.ts";
import { settings } from "../config/settings.ts";
import { type FileRead, WatchedFiles } from "../files/watched-files.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { validityOf } from "./expiries.ts";

type ServeConfig = ConfigFor<"serve">;

/** Watched files, each with the settings that name them: they are valid together, or refused. */
const keysOf = {
  tls: ["tlsCert", "tlsKey", "tlsClientCa"],
  ops_tls: ["opsTlsCert", "opsTlsKey", "tlsClientCa"],
  session_clients: ["sessionClients"],
  session_key: ["sessionKey"],
  ops_credentials: ["opsCredentials"],
  dpop_nonce_key: ["dpopNonceKey"],
  quotas: ["quotas"],
  oidc_issuers: ["oidcIssuers"],
} as const satisfies Readonly<Record<string, readonly (keyof ServeConfig)[]>>;

export type FollowedName = keyof typeof keysOf;

/** Whether settings name files of this kind; those of client authorities may be missing. */
export function isNamed(what: FollowedName, config: ServeConfig): boolean {
  return config[keysOf[what][0]] !== undefined;
}

/** Texts of files, in the order of their settings. */
export type FileTexts = readonly string[];

export interface FollowedOptions<Content> {
  /** Throws if the texts are not valid together; `current` is absent the first time. */
  readonly parse: (texts: FileTexts, current: Content | undefined) => Content | Promise<Content>;
  /** Puts it in force, before it becomes `current`. Must not throw. */
  readonly onChange?: (content: Content) => void;
  /** Log members for content that came into force. Must contain no secrets. */
  readonly describe?: (content: Content) => Readonly<Record<string, string>>;
}

/** The last valid content. */
export interface Followed<Content> {
  readonly current: Content;
  /** Changes each time that the content changes. */
  readonly revision: number;
}

/** Watches files by purpose. */
export interface FileSource {
  /** Rejects, naming the settings, if a file is invalid or cannot be read. */
  follow<Content>(what: FollowedName, options: FollowedOptions<Content>): Promise<Followed<Content>>;
}

export interface FollowedFilesMachine {
  readonly timers: Timers;
  readonly logger: Pick<Logger, "info" | "error">;
  readonly metrics: Pick<Metrics, "followed" | "reloaded" | "certificatesInForce">;
}

/** Watches files by polling. */
export class FollowedFiles implements FileSource {
  readonly #config: ServeConfig;
  readonly #machine: FollowedFilesMachine;
  readonly #open = new Map<FollowedName, Pick<WatchedFiles<unknown>, "reload" | "close">>();

  constructor(config: ServeConfig, machine: FollowedFilesMachine) {
    this.#config = config;
    this.#machine = machine;
  }

  async follow<Content>(
    what: FollowedName,
    { parse, onChange, describe }: FollowedOptions<Content>,
  ): Promise<Followed<Content>> {
    const { logger, metrics, timers } = this.#machine;
    const keys = keysOf[what].filter((key) => this.#config[key] !== undefined);
    const names = keys.map((key) => settings[key].name);
    const paths = keys.map((key) => this.#config[key] as string);
    const files = await WatchedFiles.open<Content>({
      paths,
      parse: (found, current) => {
        this.#check(keys, paths, found);
        return parse(
          found.map(({ text }) => text),
          current,
        );
      },
      files: { stat, readFile },
      timers,
      onChange: (content, texts) => {
        onChange?.(content);
        reportCertificates(keys, texts, metrics);
        metrics.reloaded(what, "taken");
        logger.info(
          { ...securityFields("credentials_changed"), what, settings: names, ...describe?.(content) },
          "changed files are in force",
        );
      },
      onProblem(problem) {
        metrics.reloaded(what, "refused");
        logger.error(
          { ...securityFields("credentials_not_taken"), what, settings: names, problem },
          "changed files are refused; the previous content stays in force",
        );
      },
      onRecovered: () => metrics.followed(what),
    }).catch((error: unknown) => {
      const problem = error instanceof Error ? error.message : "cannot be read";
      throw new Error(names.some((name) => problem.startsWith(name)) ? problem : `${names.join(", ")}: ${problem}`, {
        cause: error,
      });
    });
    this.#open.set(what, files);
    metrics.followed(what);
    reportCertificates(keys, files.texts, metrics);
    return files;
  }

  /** Reads all files now, without waiting for a poll. Does not reject. */
  async reload(): Promise<void> {
    await Promise.all([...this.#open.values()].map((files) => files.reload()));
  }

  close(): void {
    for (const files of this.#open.values()) files.close();
  }

  /** Applies the rules of the startup check to the content that was read. */
  #check(
    keys: readonly (typeof keysOf)[FollowedName][number][],
    paths: readonly string[],
    found: readonly FileRead[],
  ): void {
    const read = (path: string) => found[paths.indexOf(path)];
    const [problem] = fileProblems(
      this.#config,
      {
        readText: (path) => read(path)?.text ?? "",
        isDirectory: () => false,
        // Windows has no permission bits.
        permissions: (path) => (process.platform === "win32" ? undefined : read(path)?.permissions),
      },
      (key) => keys.some((own) => own === key),
      (key) => settings[key].name,
    );
    if (problem !== undefined) throw new Error(problem);
  }
}

type FollowedKey = (typeof keysOf)[FollowedName][number];

const certificates: readonly FollowedKey[] = ["tlsCert", "tlsClientCa", "opsTlsCert"];

function reportCertificates(
  keys: readonly FollowedKey[],
  texts: FileTexts,
  metrics: Pick<Metrics, "certificatesInForce">,
): void {
  for (const [index, key] of keys.entries())
    if (certificates.includes(key)) metrics.certificatesInForce(settings[key].name, validityOf(texts[index] ?? ""));
}
