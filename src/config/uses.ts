/** Settings by command. A command validates these and no others. */
import { issuerDefaultKeys } from "./issuer-file.ts";
import { type Config, type Key, settings } from "./settings.ts";

const keys = {
  serve: Object.keys(settings) as Key[],
  policy: ["keyReferences", "supportedProfiles"],
  // Separate from the above, because a directory on the command line replaces it.
  policy_directory: ["policyDir"],
  migrate: ["store", "storePasswordFile"],
  store: ["store", "storePasswordFile", "anchor"],
  store_copy: ["storePasswordFile", "anchor", "ledgerKey"],
  issuer: ["authMode", "oidcIssuer", "oidcIssuers", ...issuerDefaultKeys],
  witnesses: ["witnesses"],
  keys: ["ledgerKey"],
  ledger: ["store", "storePasswordFile", "anchor", "ledgerKey"],
  anchor: ["store", "anchor", "ledgerKey", "witnesses"],
  clients: ["sessionClients"],
  ops_credentials: ["opsCredentials"],
} as const satisfies Record<string, readonly Key[]>;

/** Settings that the command requires. */
const requiredKeys = {
  serve: ["policyDir", "ledgerOrigin"],
  policy: [],
  policy_directory: ["policyDir"],
  migrate: [],
  store: [],
  store_copy: [],
  issuer: [],
  witnesses: [],
  keys: [],
  ledger: [],
  anchor: [],
  clients: ["sessionClients"],
  ops_credentials: ["opsCredentials"],
} as const satisfies Record<string, readonly Key[]>;

/** Use of the configuration. */
export type Use = keyof typeof keys;

/** Keys that the command uses. */
export function keysOf(use: Use): readonly Key[] {
  return keys[use];
}

/** Keys that must be set for the command. */
export function requiredKeysOf(use: Use): readonly Key[] {
  return requiredKeys[use];
}

/** A command's configuration: the settings that it uses, the required ones without `undefined`. */
export type ConfigFor<U extends Use> = {
  readonly [K in (typeof keys)[U][number]]: K extends (typeof requiredKeys)[U][number]
    ? Exclude<Config[K], undefined>
    : Config[K];
};
