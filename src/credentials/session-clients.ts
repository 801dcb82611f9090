/** The registered clients, as the session route asks for them. */
import { createHash } from "node:crypto";
import type { TenantId } from "../base/ids.ts";
import { isClient, type RegisteredClient } from "./client-file.ts";
import { defaultCost, isSecret, type SecretHash } from "./client-secret.ts";

export class FileSessionClients {
  readonly #clients: () => readonly RegisteredClient[];
  readonly #isSecret: typeof isSecret;

  /**
   * @param clients returns those that are registered now
   * @param check computes the hash; `isSecret` where absent
   */
  constructor(clients: () => readonly RegisteredClient[], check: typeof isSecret = isSecret) {
    this.#clients = clients;
    this.#isSecret = check;
  }

  /**
   * Finds the client whose secret this is; undefined where there is no such client of the tenant, or the secret is
   * another. One hash is computed in each case, so that time and memory tell nothing.
   */
  async verify(tenantId: TenantId, clientId: string, secret: string): Promise<RegisteredClient | undefined> {
    const clients = this.#clients();
    const client = clients.find((candidate) => isClient(candidate, tenantId, clientId));
    const matches = await this.#isSecret(secret, client?.secret ?? decoy(clients, tenantId, clientId));
    return matches ? client : undefined;
  }
}

/**
 * A hash that nobody's secret has, as costly as one of the file's: always the same one for the same name, as it would
 * be if the client were there, and each as often as the file has it.
 */
function decoy(clients: readonly RegisteredClient[], tenantId: TenantId, clientId: string): SecretHash {
  const digest = createHash("sha256")
    .update(JSON.stringify([tenantId, clientId]))
    .digest();
  const model = clients[clients.length === 0 ? 0 : digest.readUInt32BE() % clients.length];
  return { ...(model?.secret ?? defaultCost), salt: digest.subarray(0, 16), hash: digest };
}
