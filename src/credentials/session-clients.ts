/** The registered clients, for the session route. */
import { createHash } from "node:crypto";
import type { TenantId } from "../base/ids.ts";
import { isClient, type RegisteredClient } from "./client-file.ts";
import { defaultCost, isSecret, type SecretHash } from "./client-secret.ts";

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
