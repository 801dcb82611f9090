/** Permissions of files that must stay secret. */
import type { Config, Key } from "./settings.ts";

/** Reads permissions from the file system. */
export interface FilePermissions {
  /** Permission bits of the file, following links; undefined if the system has none. Throws like `Files`. */
  permissions(path: string): number | undefined;
}

interface SecretFile {
  readonly key: Key;
  /** Whether the service's own commands write it: then it has no reason for another mode than theirs. */
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
 * Write for group and others, read for others. A group may read: orchestrators mount secrets as root's, readable for
 * the group that the process is given.
 */
const tooOpen = 0o026;
/** A process that can write the file can authenticate as its owner. */
const writableByAnybody = 0o002;

/** A secret file with permissions for others than its owner. */
export interface OpenSecretFile {
  readonly key: Key;
  /** Completes "NAME: …". */
  readonly message: string;
  /**
   * Whether the service must not start with it. If a file that others provide is readable by all, this is only a
   * warning: orchestrators mount secrets that way in containers without other users.
   */
  readonly refused: boolean;
}

/** Secret files of the configuration with too wide permissions, for the keys that `has` knows. */
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

/** An absent file cannot be read by others; whether it must exist is another rule. */
function permissionsOf(path: string, files: FilePermissions): number | undefined {
  try {
    return files.permissions(path);
  } catch {
    return undefined;
  }
}
