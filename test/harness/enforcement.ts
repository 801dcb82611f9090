/** A real service for tests of local enforcement, clients of several principals, and a platform that can be made to fail. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Transport } from "@connectrpc/connect";
import { beforeEach } from "vitest";
import { createBulkClient } from "../../clients/typescript/src/bulk.ts";
import { platformOf } from "../../clients/typescript/src/enforce/client-platform.ts";
import type { Platform } from "../../clients/typescript/src/enforce/platform.ts";
import {
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createHttpClient } from "../../clients/typescript/src/node.ts";
import { defaultClient, type IssuerClient } from "../../dev/issuer.ts";
import { startStack } from "../../dev/stack.ts";
import { checkedPolicies } from "./checked-policies.ts";
import { folderForTest } from "./folder.ts";
import { logKeyOf } from "./ledger.ts";

export type EnforcementStack = Awaited<ReturnType<typeof startEnforcementStack>>;

/** Principals of `tenant-a`, whose policy goes by what is claimed, and of `tenant-c`, whose goes by what was registered. */
export function enforcementClients(): readonly IssuerClient[] {
  const base = defaultClient();
  const registrar = { ...base, clientId: "payroll-c", tenantId: "tenant-c" };
  const reader = { ...base, clientId: "reports-c", tenantId: "tenant-c", principalId: "report-service" };
  return [base, registrar, reader];
}

/** Starts it. `env` are settings besides those of the development stack. */
export async function startEnforcementStack(
  env: Readonly<Record<string, string>> = {},
  clients: readonly IssuerClient[] = enforcementClients(),
) {
  const dataDir = mkdtempSync(join(tmpdir(), "enforcement-"));
  const stack = await startStack({
    dataDir,
    issuer: { clients },
    env: { SVC_LOG_LEVEL: "fatal", ...env },
    policy: checkedPolicies,
  });
  const transport = (clientId: string | undefined): Transport => {
    const client = clients.find((candidate) => clientId === undefined || candidate.clientId === clientId);
    if (client === undefined) throw new Error(`no client ${clientId}`);
    const { clientSecret, scopes } = client;
    const http = createHttpClient();
    const tokens = clientCredentials({
      issuer: stack.issuer.url,
      clientId: client.clientId,
      clientSecret,
      scopes,
      http,
    });
    const interceptors = workloadInterceptors({ tokens, retry: { attempts: 1 } });
    return createRestTransport({ baseUrl: stack.url, http, interceptors });
  };
  const platform = (clientId?: string): Platform => platformOf(createPlatformClient(transport(clientId)));
  return {
    stack,
    dataDir,
    platform,
    /** Needs `SVC_BULK`. */
    bulk: (clientId?: string) => createBulkClient(transport(clientId)),
    /** The platform of the first client, with some of its calls replaced. */
    altered: (calls: Partial<Platform>): Platform => ({ ...platform(), ...calls }),
    /** Verifier key of the log of this client's tenant. */
    async logKey(clientId?: string) {
      const { receipt } = await platform(clientId).planProtection({
        operation: "protect",
        preferred_artifact_profile: "envelope",
        workload: { application: "test" },
        resource: { kind: "test" },
        labels: [],
        attributes: {},
        understood_obligations: [],
      });
      return logKeyOf(join(dataDir, "ledger.key"), String(receipt?.log_origin));
    },
    async stop() {
      await stack.stop();
      rmSync(dataDir, { recursive: true });
    },
  };
}

/** A folder of its own for each test of the file that calls this, with the input in it. */
export function enforcementFolder(inputName: string, input: Uint8Array) {
  let folder = "";
  const at = (name: string) => join(folder, name);
  beforeEach(() => {
    folder = folderForTest("enforce");
    writeFileSync(at(inputName), input);
  });
  return {
    at,
    /** Events that wait. */
    spool: () => readdirSync(at("spool")).filter((name) => name.endsWith(".json")),
    /** What an operation left. */
    files: () => readdirSync(folder).filter((name) => !["spool", inputName].includes(name)),
  };
}

export { failureOf } from "./permissive-platform.ts";

/** These calls of the platform, with other members in what they say. */
export function saying(honest: Platform, members: object, ...calls: readonly (keyof Platform)[]): Partial<Platform> {
  const changed = (call: keyof Platform) => {
    const own = honest[call] as unknown as (said: object, ...others: readonly unknown[]) => unknown;
    return (said: object, ...others: readonly unknown[]) => own({ ...said, ...members }, ...others);
  };
  return Object.fromEntries(calls.map((call) => [call, changed(call)])) as Partial<Platform>;
}

/** A call that fails on the way. */
export const noAnswer = () => Promise.reject(new Error("connection reset"));
