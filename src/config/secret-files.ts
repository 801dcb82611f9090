/** Who else may read or write the files that must stay secret. */
import type { Config, Key } from "./settings.ts";

/** What is asked of the file system about a file's mode. */
export interface FilePermissions {
  /** Permission bits of the file, following links; undefined where the system has none. Throws like `Files`. */
  permissions(path: string): number | undefined;
}

interface SecretFile {
  readonly key: Key;
  /** Whether the service's own commands write it: then there is no reason for another mode than theirs. */
  readonly isOurs: boolean;
}

const secretFiles: readonly SecretFile[] = [
  { key: "ledgerKey", isOurs: true },
  { key: "opsCredentials", isOurs: true },
  { key: "sessionClients", isOurs: true },
  { key: "tlsKey", isOurs: false },
  { key: "opsTlsKey", isOurs: false },
  { key: "storePasswordFile", isOurs: false },
  { key: "sessionKey", isOurs: false },
  { key: "dpopNonceKey", isOurs: false },
];

/**
 * Write for group and others, read for others. A group may read: orchestrators mount secrets as root's, readable for the
 * group that the process is given.
 */
const tooOpen = 0o026;
/** Whoever writes the file is whoever the service takes for its owner. */
const writableByAnybody = 0o002;

/** A secret file that is open to more than its owner. */
export interface OpenSecretFile {
  readonly key: Key;
  /** Completes "NAME: …". */
  readonly message: string;
  /**
   * Whether the service must not start with it. Others' reading of a file that somebody else provides is a warning:
   * orchestrators mount secrets readable for all in containers that nobody else is in.
   */
  readonly refused: boolean;
}

/** Secret files of the configuration that are too open, for the keys that `has` knows. */
export function openSecretFiles(
  config: Partial<Config>,
  files: FilePermissions,
  has: (key: Key) => boolean = (key) => Object.hasOwn(config, key),
): readonly OpenSecretFile[] {
  return secretFiles.flatMap(({ key, isOurs }) => {
    const path = has(key) ? config[key] : undefined;
    const permissions = typeof path === "string" ? permissionsOf(path, files) : undefined;
    if (permissions === undefined || (permissions & tooOpen) === 0) return [];
    const mode = permissions.toString(8).padStart(4, "0");
    const message = `is a file of mode ${mode}: others may not read it, and only its owner may write it (0600, or 0640 for a group that reads it)`;
    return [{ key, message, refused: isOurs || (permissions & writableByAnybody) !== 0 }];
  });
}

/** What is not there cannot be read by others either; whether it has to be there is for another rule. */
function permissionsOf(path: string, files: FilePermissions): number | undefined {
  try {
    return files.permissions(path);
  } catch {
    return undefined;
  }
}
