/** Drivers of client packages against a real issuer, which binds tokens to their key, and a real gateway. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDriver } from "../../clients/conformance/driver.ts";
import type { DriverRequest } from "../../clients/conformance/protocol.ts";
import { defaultClient } from "../../dev/issuer.ts";
import { startGateway } from "../harness/gateway.ts";

export interface DpopDeployment {
  /** What a driver answers to a call, and then to two at once. */
  drive(driver: readonly string[]): Promise<unknown>;
  stop(): Promise<void>;
}

/** Starts both. With nonces, the gateway asks for one of its own in every proof (RFC 9449 section 9). */
export async function startDpopDeployment(
  folder: string,
  { withNonces }: { readonly withNonces: boolean },
): Promise<DpopDeployment> {
  const nonceKey = join(folder, "nonce.key");
  if (withNonces) await writeFile(nonceKey, randomBytes(32).toString("base64"), { mode: 0o600 });
  const client = { ...defaultClient(), dpopBound: true };
  const gateway = await startGateway({
    issuer: { clients: [client] },
    env: { SVC_PROOF_OF_POSSESSION: "dpop", ...(withNonces && { SVC_DPOP_NONCE_KEY: nonceKey }) },
  });
  const { clientId: client_id, clientSecret: client_secret, scopes } = client;
  const request: DriverRequest = {
    case: "dpop",
    base_url: gateway.url,
    tls: {},
    token: { issuer: gateway.issuer.url, client_id, client_secret, scopes },
    dpop: true,
    options: {
      deadline_ms: 20_000,
      max_attempts: 1,
      initial_backoff_ms: 100,
      max_backoff_ms: 100,
      receipts: "brief",
    },
    steps: [{ call: "whoami" }, { call: "concurrent", calls: [{ call: "whoami" }, { call: "capabilities" }] }],
  };
  return {
    async drive(command) {
      const driver = startDriver(command);
      try {
        return (await driver.ask(request, 60_000)).steps;
      } finally {
        await driver.end();
      }
    },
    stop: () => gateway.stop(),
  };
}

const answered = { answer: { caller: { principalId: defaultClient().principalId } } };
/** What every driver answers. */
export const dpopAnswers = [answered, { steps: [answered, answered] }];
