/** The file of session clients that a command changes or reads. */
import { randomFillSync } from "node:crypto";
import { parseTenantId, type RandomFill } from "../base/ids.ts";
import {
  formatClientFile,
  isClient,
  isClientId,
  isScope,
  parseClientFile,
  type RegisteredClient,
} from "../credentials/client-file.ts";
import { isFileError, readRegularFile } from "../files/file-system.ts";
import { updateFile } from "../files/update-file.ts";
import { type CommonOptions, loadOrReport } from "./options.ts";
import type { Output } from "./output.ts";

export const random: RandomFill = (bytes) => randomFillSync(bytes);

/** Which client a command is about, as its options say. */
export interface ClientOptions extends CommonOptions {
  readonly tenant: string;
  readonly client: string;
}

/** What is wrong with the names and the scopes of a new client. */
export function newClientProblems({ tenant, client }: ClientOptions, scopes: readonly string[]): readonly string[] {
  return [
    ...(parseTenantId(tenant) === undefined
      ? ["--tenant: must be 1 to 128 of letters, digits and . _ : -, starting with a letter or digit"]
      : []),
    ...(isClientId(client) ? [] : ["--client: must be 1 to 256 visible ASCII characters"]),
    ...(scopes.length > 0 && scopes.every(isScope) ? [] : ["--scopes: must be scopes, separated by spaces"]),
  ];
}

/** A change that cannot be made; its message says why. */
export class ClientProblem extends Error {
  override readonly name = "ClientProblem";
}

/**
 * Replaces the clients of the file in one step, and returns whether that was done; where it was not, reports
 * why. Where `change` throws a `ClientProblem` nothing is written.
 */
export function changeClients(
  options: CommonOptions,
  output: Output,
  change: (clients: readonly RegisteredClient[]) => readonly RegisteredClient[],
): boolean {
  const path = loadOrReport("clients", options, output)?.sessionClients;
  if (path === undefined) return false;
  try {
    updateFile(path, (text) => formatClientFile(change(text === undefined ? [] : parseClientFile(text))));
    return true;
  } catch (error) {
    report(error, output);
    return false;
  }
}

/** The clients of the file, none where there is no file; where they cannot be read, reports why. */
export async function readClients(
  options: CommonOptions,
  output: Output,
): Promise<readonly RegisteredClient[] | undefined> {
  const path = loadOrReport("clients", options, output)?.sessionClients;
  if (path === undefined) return undefined;
  try {
    return parseClientFile(readRegularFile(path));
  } catch (error) {
    if (isFileError(error, ["ENOENT"])) return [];
    report(error, output);
    return undefined;
  }
}

/** Whether the file has the client; where it has not, or cannot be read, reports that. */
export async function clientOrReport(options: ClientOptions, output: Output): Promise<boolean> {
  const known = await readClients(options, output);
  if (known === undefined) return false;
  const isThere = known.some((candidate) => isClient(candidate, options.tenant, options.client));
  if (!isThere) report(unknownClient(options), output);
  return isThere;
}

/** There is no such client. */
export function unknownClient({ tenant }: ClientOptions): ClientProblem {
  return new ClientProblem(`--client: tenant ${tenant} has no such client`);
}

function report(error: unknown, output: Output): void {
  const message = error instanceof Error ? error.message : String(error);
  output.fail([error instanceof ClientProblem ? message : `SVC_SESSION_CLIENTS: ${message}`]);
}
