/**
 * Files that a running service reloads when they change: certificates, keys, secrets and credential lists that settings
 * name. All are read, checked, put in force, logged and counted in the same way.
 */
import { X509Certificate } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import { securityFields } from "../base/security-events.ts";
import { certificatesIn } from "../base/text-forms.ts";
import type { Timers } from "../base/timers.ts";
import type { ConfigFor } from "../config/config.ts";
import { fileProblems } from "../config/files.ts";
import { settings } from "../config/settings.ts";
import { type FileRead, WatchedFiles } from "../files/watched-files.ts";
import { contextOptions, type TlsFiles } from "../http/replaceable-tls.ts";
import type { RootLogger } from "../telemetry/logger.ts";
import type { Metrics, Validity } from "../telemetry/metrics.ts";
import type { Tracing } from "../telemetry/tracing.ts";

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

type FollowedName = keyof typeof keysOf;
type FollowedKey = (typeof keysOf)[FollowedName][number];

/** Texts of files, in the order of their settings. */
type FileTexts = readonly string[];

interface FollowedOptions<Content> {
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

/** What the parts of a service are made with: the machine's facilities, logger, metrics and watched files. */
export interface Machine {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
  /** Absent if tracing is off. */
  readonly tracing: Tracing | undefined;
  readonly files: Pick<FollowedFiles, "follow">;
}

/** Watches files by purpose, by polling. */
export class FollowedFiles {
  readonly #config: ServeConfig;
  readonly #machine: Pick<Machine, "timers" | "logger" | "metrics">;
  readonly #open = new Map<FollowedName, Pick<WatchedFiles<unknown>, "reload" | "close">>();

  constructor(config: ServeConfig, machine: Pick<Machine, "timers" | "logger" | "metrics">) {
    this.#config = config;
    this.#machine = machine;
  }

  /**
   * Undefined if the first of the settings names no file. Rejects, naming the settings, if a file is invalid or cannot be
   * read.
   */
  async follow<Content>(
    what: FollowedName,
    { parse, onChange, describe }: FollowedOptions<Content>,
  ): Promise<Followed<Content> | undefined> {
    if (this.#config[keysOf[what][0]] === undefined) return undefined;
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
  #check(keys: readonly FollowedKey[], paths: readonly string[], found: readonly FileRead[]): void {
    const read = (path: string) => found[paths.indexOf(path)];
    const [problem] = fileProblems(
      this.#config,
      {
        readText: (path) => read(path)?.text ?? "",
        isDirectory: () => false,
        // Windows has no permission bits.
        permissions: (path) => (process.platform === "win32" ? undefined : read(path)?.permissions),
      },
      keys,
    );
    if (problem !== undefined) throw new Error(problem);
  }
}

const certificates: readonly FollowedKey[] = ["tlsCert", "tlsClientCa", "opsTlsCert"];

function reportCertificates(
  keys: readonly FollowedKey[],
  texts: FileTexts,
  metrics: Pick<Metrics, "certificatesInForce">,
): void {
  for (const [index, key] of keys.entries())
    if (certificates.includes(key)) metrics.certificatesInForce(settings[key].name, validityOf(texts[index] ?? ""));
}

// Reports age and expiry to operators: of the certificate and key files that settings name.

const keyFileKeys = ["ledgerKey", "sessionKey", "dpopNonceKey", "tlsKey", "opsTlsKey"] as const;

export function watchKeyFiles(
  config: Pick<ConfigFor<"serve">, (typeof keyFileKeys)[number]>,
  metrics: Pick<Metrics, "watchKeyFiles">,
): void {
  const files = keyFileKeys.flatMap((key) => {
    const path = config[key];
    return path === undefined ? [] : [{ name: settings[key].name, path }];
  });
  metrics.watchKeyFiles(async () => {
    // A file may be absent, or not accessible.
    const states = await Promise.all(files.map(({ path }) => stat(path).catch(() => undefined)));
    return new Map(states.flatMap((state, at) => (state ? [[files[at]?.name ?? "", state.mtimeMs] as const] : [])));
  });
}

/** The period in which all certificates of the PEM text are valid. Throws if one is invalid. */
export function validityOf(pem: string): Validity {
  const certificates = certificatesIn(pem).map((text) => new X509Certificate(text));
  return {
    notBeforeMs: Math.max(...certificates.map(({ validFromDate }) => validFromDate.getTime())),
    notAfterMs: Math.min(...certificates.map(({ validToDate }) => validToDate.getTime())),
  };
}

// Certificates of the listeners, reloaded from their files.

/**
 * Watched TLS files of a listener; absent if it is plaintext. At startup a certificate outside its validity period is
 * accepted, because the machine's clock may be wrong. As a replacement for a working one it is refused as a mistake.
 *
 * @param onChange puts them in force, and must not throw
 */
export function followTls(
  owner: "tls" | "ops_tls",
  { files, clock }: Pick<Machine, "files" | "clock">,
  onChange: (tls: TlsFiles) => void,
): Promise<Followed<TlsFiles> | undefined> {
  return files.follow(owner, {
    onChange,
    parse([cert = "", key = "", clientCa], current): TlsFiles {
      const tls: TlsFiles = { cert, key, clientCa };
      createSecureContext(contextOptions(tls));
      if (current === undefined) return tls;
      const { validFromDate, validToDate } = new X509Certificate(cert);
      if (validToDate.getTime() <= clock.now())
        throw new Error(`the certificate expired on ${validToDate.toISOString()}`);
      if (validFromDate.getTime() > clock.now())
        throw new Error(`the certificate is not valid before ${validFromDate.toISOString()}`);
      return tls;
    },
    describe({ cert }) {
      const { fingerprint256, validToDate } = new X509Certificate(cert);
      return { certificate_sha256: fingerprint256, not_after: validToDate.toISOString() };
    },
  });
}
