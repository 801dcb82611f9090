/** Session clients of a soak: one for ordinary sessions, one that asks far too often. */
import { generateKeyPairSync, randomFillSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TenantId } from "../src/base/ids.ts";
import { formatClientFile } from "../src/credentials/client-file.ts";
import { hashSecret } from "../src/credentials/client-secret.ts";

export interface SoakClient {
  readonly tenantId: string;
  readonly clientId: string;
  readonly secret: string;
}

const scopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];

/** Writes the files of the session route into the folder; returns the settings that name them. */
export async function writeSessionFiles(folder: string, clients: readonly SoakClient[]) {
  const [clientsPath, keyPath] = [join(folder, "clients.json"), join(folder, "session.key")];
  const registered = clients.map(async ({ tenantId, clientId, secret }) => ({
    tenantId: tenantId as TenantId,
    clientId,
    scopes,
    secret: await hashSecret(secret, (bytes) => randomFillSync(bytes)),
  }));
  writeFileSync(clientsPath, formatClientFile(await Promise.all(registered)), { mode: 0o600 });
  const { privateKey } = generateKeyPairSync("ed25519");
  writeFileSync(keyPath, privateKey.export({ format: "pem", type: "pkcs8" }), { mode: 0o600 });
  return {
    SVC_SESSION_CLIENTS: clientsPath,
    SVC_SESSION_KEY: keyPath,
    // Callers stand behind an ingress on this machine and say where they come from.
    SVC_TRUSTED_PROXIES: "127.0.0.1",
  } as const;
}
