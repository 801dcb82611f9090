/** The registered clients, for the session route. */

import { createHash } from "node:crypto";
import {
  type AttributeDeclarations,
  type AttributeValues,
  anyAttributeValue,
  attributeValue,
  type SessionClient,
  typeNames,
} from "../base/caller.ts";
import { parseTenantId, type TenantId } from "../base/ids.ts";
import { hasRepeatedMember, isObject, orUndefined, parseJson } from "../base/json.ts";
import { defaultCost, formatSecretHash, isSecret, parseSecretHash, type SecretHash } from "./client-secret.ts";

export class FileSessionClients {
  readonly #clients: () => readonly RegisteredClient[];
  readonly #isSecret: typeof isSecret;

  /**
   * @param clients returns the current clients
   * @param check computes the hash; default `isSecret`
   */
  constructor(clients: () => readonly RegisteredClient[], check: typeof isSecret = isSecret) {
    this.#clients = clients;
    this.#isSecret = check;
  }

  /**
   * Returns the client with this secret; undefined for an unknown client or another secret. Computes one hash in each
   * case, so that time and memory reveal nothing.
   */
  async verify(tenantId: TenantId, clientId: string, secret: string): Promise<RegisteredClient | undefined> {
    const clients = this.#clients();
    const client = clients.find((candidate) => isClient(candidate, tenantId, clientId));
    const matches = await this.#isSecret(secret, client?.secret ?? decoy(clients, tenantId, clientId));
    return matches ? client : undefined;
  }
}

/** A hash that no secret has: the same for the same name, and as costly as one of the file's. */
function decoy(clients: readonly RegisteredClient[], tenantId: TenantId, clientId: string): SecretHash {
  const digest = createHash("sha256")
    .update(JSON.stringify([tenantId, clientId]))
    .digest();
  const model = clients[clients.length === 0 ? 0 : digest.readUInt32BE() % clients.length];
  return { ...(model?.secret ?? defaultCost), salt: digest.subarray(0, 16), hash: digest };
}

// The client file of the session route: JSON, one object with a list `clients`.

export interface RegisteredClient extends SessionClient {
  readonly secret: SecretHash;
}

/** Longest attributes as JSON: a session token, of at most 8 KiB, contains them. */
const maximumAttributesBytes = 4096;
/** Longest JSON of what a token contains of its client, with the id as client, principal and subject. */
const maximumTokenPartBytes = 5_000;

/** 1 to 256 visible ASCII characters. */
const clientIdPattern = /^[\x21-\x7e]{1,256}$/;
/** scope-token (RFC 6749 §3.3), without the comma that separates lists in settings. */
const scopePattern = /^[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,256}$/;
const memberNames = ["client_id", "scopes", "secret", "tenant_id"];

export function isClientId(text: string): boolean {
  return clientIdPattern.test(text);
}

export function isScope(text: string): boolean {
  return scopePattern.test(text);
}

/** Whether the client has this tenant and id; ids are unique only within a tenant. */
export function isClient(client: RegisteredClient, tenantId: string, clientId: string): boolean {
  return client.tenantId === tenantId && client.clientId === clientId;
}

/**
 * Parses the file. Throws an Error that names the client and the problem, without secrets.
 *
 * @param declared attributes: values of another type are refused; undeclared attributes are kept and not read
 * @param mayBeUnusable whether ids and lengths that no session can have are kept, so that their clients can be removed
 */
export function parseClientFile(
  text: string,
  declared: AttributeDeclarations = {},
  mayBeUnusable = false,
): readonly RegisteredClient[] {
  const { clients, ...others } = parseObject(text);
  if (!Array.isArray(clients) || Object.keys(others).length > 0)
    throw new Error('must be an object with "clients", a list, and nothing else');
  const parsed = (clients as unknown[]).map((client, i) => {
    const one = parseClient(client, `clients[${i}]`, declared);
    if (!mayBeUnusable) requireUsable(one, `clients[${i}]`);
    return one;
  });
  const known = new Set<string>();
  for (const [i, { tenantId, clientId }] of parsed.entries()) {
    const key = JSON.stringify([tenantId, clientId]);
    if (known.has(key)) throw new Error(`clients[${i}] is listed twice`);
    known.add(key);
  }
  return parsed;
}

/** Formats the file, in the order of the clients. */
export function formatClientFile(clients: readonly RegisteredClient[]): string {
  const rows = clients.map(({ tenantId, clientId, scopes, attributes, secret }) => ({
    tenant_id: tenantId,
    client_id: clientId,
    scopes,
    attributes,
    secret: formatSecretHash(secret),
  }));
  return `${JSON.stringify({ clients: rows }, undefined, 2)}\n`;
}

function parseObject(text: string): Record<string, unknown> {
  // The parser's message quotes the text.
  const value = orUndefined(() => parseJson(text));
  if (value === undefined) throw new Error("is not JSON");
  if (!isObject(value)) throw new Error("is not a JSON object");
  if (hasRepeatedMember(text, value)) throw new Error("has an object with two members of the same name");
  return value;
}

function parseClient(value: unknown, path: string, declared: AttributeDeclarations): RegisteredClient {
  const { attributes, ...others } = isObject(value) ? value : {};
  if (Object.keys(others).sort().join() !== memberNames.join())
    throw new Error(`${path} must have tenant_id, client_id, scopes and secret, perhaps attributes, and nothing else`);
  const { tenant_id, client_id, scopes, secret } = others;
  const tenantId = typeof tenant_id === "string" ? parseTenantId(tenant_id) : undefined;
  if (tenantId === undefined) throw new Error(`${path}.tenant_id is not a tenant id`);
  if (typeof client_id !== "string") throw new Error(`${path}.client_id is not a text`);
  if (!Array.isArray(scopes) || !scopes.every((scope) => typeof scope === "string" && isScope(scope)))
    throw new Error(`${path}.scopes is not a list of scopes`);
  const hash = typeof secret === "string" ? parseSecretHash(secret) : undefined;
  if (hash === undefined) throw new Error(`${path}.secret is not an Argon2id hash within the bounds`);
  return {
    tenantId,
    clientId: client_id,
    scopes: [...new Set(scopes as string[])],
    ...(attributes !== undefined && { attributes: parseClientAttributes(attributes, `${path}.attributes`, declared) }),
    secret: hash,
  };
}

function requireUsable({ clientId, scopes, attributes }: RegisteredClient, path: string): void {
  if (!isClientId(clientId)) throw new Error(`${path}.client_id is not 1 to 256 visible characters`);
  const tokenPart = JSON.stringify([clientId, clientId, clientId, scopes.join(" "), attributes]);
  if (Buffer.byteLength(tokenPart) > maximumTokenPartBytes)
    throw new Error(`${path} is too long for a token: shorten its scopes or attributes`);
}

/** Parses attribute values by name. Throws an Error that names the faulty attribute. */
export function parseClientAttributes(
  value: unknown,
  path: string,
  declared: AttributeDeclarations = {},
): AttributeValues {
  if (!isObject(value)) throw new Error(`${path} is not an object`);
  if (Buffer.byteLength(JSON.stringify(value), "utf8") > maximumAttributesBytes)
    throw new Error(`${path} is longer than ${maximumAttributesBytes} bytes`);
  const values = Object.entries(value).map(([name, given]) => {
    const type = Object.hasOwn(declared, name) ? declared[name]?.type : undefined;
    const fitting = type === undefined ? anyAttributeValue(given) : attributeValue(type, given);
    if (fitting === undefined) throw new Error(`${path}.${name} must be ${typeNames[type ?? "text"]}`);
    return [name, fitting] as const;
  });
  return Object.fromEntries(values);
}
