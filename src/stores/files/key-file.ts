/** The file of the keys that sign checkpoints: PEM, the current key first, retiring ones after it. */

import { createPrivateKey } from "node:crypto";
import type { RandomFill } from "../../base/ids.ts";
import { objectOf, orUndefined, parseJson } from "../../base/json.ts";
import {
  codeText,
  createFile,
  isFileError,
  NotRegularFileError,
  readIfThere,
  updateFile,
} from "../../files/file-system.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import { isStatementText, maxOperatorLength, maxReasonLength } from "../../ledger/record/operator-records.ts";
import { type SigningKey, signingKey, signingKeyOf } from "../../ledger/tlog/note-keys.ts";
import { IncompatibleStoreError } from "./errors.ts";

/** A key, with the operator's statement from its rotation, for the record that hands the logs over. */
export interface FileKey extends SigningKey {
  readonly statement?: ErasureStatement | undefined;
}

export type SigningKeys = readonly [FileKey, ...FileKey[]];

/** JSON of an operator's statement may precede a key, in text that PEM readers skip (RFC 7468 §2, §5.2). */
const pemKey = /(?:^Rotation: (?<statement>.*)\n)?(?<pem>-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----)/gm;

/** The file cannot be used, or made. The message says why, without the file's content. */
function keyFileError(message: string, cause?: unknown): IncompatibleStoreError {
  return new IncompatibleStoreError(message, "SVC_LEDGER_KEY", { cause });
}

/** Reads the keys; undefined if there is no file. Throws `IncompatibleStoreError` if the file cannot be used. */
export function readKeyFile(path: string): SigningKeys | undefined {
  const text = readText(path);
  if (text === undefined) return undefined;
  const [first, ...rest] = [...text.matchAll(pemKey)].map(({ groups }) => ({
    ...parseKey(path, groups?.pem ?? ""),
    statement: parseStatement(path, groups?.statement),
  }));
  if (first === undefined) throw keyFileError(`${path} holds no private key in PEM (PKCS #8, no passphrase).`);
  return [first, ...rest];
}

/** Writes a key file, as `createFile` does. */
export function createKeyFile(path: string, keys: SigningKeys): void {
  createFile(path, pemOf(keys));
}

/** Makes a key and its file, or reads one made meanwhile. Throws `IncompatibleStoreError` if it cannot. */
export function makeKeys(keyPath: string, random: RandomFill): SigningKeys | undefined {
  const keys: SigningKeys = [signingKeyOf(random(new Uint8Array(32)))];
  try {
    createKeyFile(keyPath, keys);
    return keys;
  } catch (error) {
    if (isFileError(error, ["EEXIST"])) return readKeyFile(keyPath);
    throw keyFileError(`${keyPath} cannot be made${codeText(error)}.`, error);
  }
}

/** Replaces the key file atomically. Durable when it returns. Throws as `updateFile`. */
export function replaceKeyFile(path: string, keys: SigningKeys): void {
  updateFile(path, () => pemOf(keys));
}

function pemOf(keys: SigningKeys): string {
  return keys
    .map(({ privateKey, statement }) => {
      const pem = privateKey.export({ format: "pem", type: "pkcs8" }) as string;
      return statement === undefined ? pem : `Rotation: ${statementText(statement)}\n${pem}`;
    })
    .join("");
}

/** JSON in ASCII without hyphens: it cannot look like a line end or a PEM boundary. */
function statementText({ operator, reason }: ErasureStatement): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify({ operator, reason }).replaceAll(/[^ -~]|-/g, escaped);
}

function parseStatement(path: string, text: string | undefined): ErasureStatement | undefined {
  if (text === undefined) return undefined;
  const { operator, reason } = objectOf(orUndefined(() => parseJson(text)));
  if (isStatementText(operator, maxOperatorLength) && isStatementText(reason, maxReasonLength))
    return { operator, reason };
  throw keyFileError(`${path} has a line "Rotation:" that does not name operator and reason.`);
}

function parseKey(path: string, pem: string): SigningKey {
  try {
    return signingKey(createPrivateKey(pem));
  } catch (cause) {
    throw keyFileError(`${path} holds a key that is not an Ed25519 private key.`, cause);
  }
}

function readText(path: string): string | undefined {
  try {
    return readIfThere(path);
  } catch (error) {
    if (error instanceof NotRegularFileError) throw keyFileError(`${error.message}.`, error);
    throw keyFileError(`${path} cannot be read${codeText(error)}.`, error);
  }
}
