/** One deployment with many tenants whose names are easily taken for each other, and callers of all of them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { findReceipt, type GivenReceipt } from "../../../src/ledger/record/receipt.ts";
import { readKeyFile } from "../../../src/stores/files/key-file.ts";
import type { OperatorArchive } from "../../../src/stores/sql/archive.ts";
import type { RecordsAdministration } from "../../../src/stores/sql/records-administration.ts";
import { type Outcome, type WireClient, wireClients } from "../../harness/clients.ts";
import { draws } from "../../harness/draws.ts";
import { type Gateway, gatewayForFile } from "../../harness/gateway.ts";
import { type StaticIssuer, startStaticIssuer } from "../../harness/issuer.ts";
import { administering, backendOf } from "../../harness/ledger.ts";
import { forFile } from "../../harness/lifetimes.ts";
import { everyApi, methodOn, requestFromRest } from "../../harness/methods.ts";
import {
  newSessionKey,
  type SessionAsk,
  type SessionOutcome,
  sessionCallers,
  writeClients,
} from "../../harness/sessions.ts";
import type { TestStore } from "../../harness/stores.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "../../harness/tokens.ts";
import { startWitness, type TestWitness } from "../../harness/witness.ts";
import { lookAlikes, namedLookAlikes, sessionClientsOf } from "./names.ts";
import { tenantsWithSets, writePolicies } from "./policy-sets.ts";

export const wireNames = ["REST", "gRPC"] as const;
export type WireName = (typeof wireNames)[number];

const scope = "platform-api.access policy.read keys.use artifacts.write evidence.write decisions.delegate";

/** Calls on one protocol. */
export interface Wire {
  readonly name: WireName;
  /** One call on a JSON route, or on the method that it stands for. */
  call(route: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<Outcome>;
  /** The same with proofs of possession asked for. */
  callWithProof: Wire["call"];
  openSession(ask: SessionAsk, headers?: Readonly<Record<string, string>>): Promise<SessionOutcome>;
}

export interface World {
  readonly store: TestStore;
  /** Its policy directory. */
  readonly policies: string;
  /** Base URLs: of the service, of one on the same store that asks for DPoP proofs, of the operator listener. */
  readonly url: string;
  readonly proofUrl: string;
  readonly opsUrl: string;
  wire(name: WireName): Wire;
  /** Unused ids, each easily taken for another. */
  tenants(): readonly string[];
  /** A token of the tenant, with every scope; principal and subject are the same in all tenants. */
  token(tenant: string, claims?: Members): string;
  /** Verifier key of the witness of all logs. */
  readonly witnessKey: string;
  /** Looks at the store as it is now. */
  reading<Result>(look: (archive: OperatorArchive) => Promise<Result>): Promise<Result>;
  /** Does what an operator does to records. */
  keeping<Result>(act: (administration: RecordsAdministration) => Promise<Result>): Promise<Result>;
}

/** One stored thing of which no tenant gets anything of another's. */
export interface IsolationRow {
  readonly thing: string;
  /** Tables that hold it, by their names in every store. */
  readonly tables: readonly string[];
  readonly check: (world: World, wire: Wire) => Promise<void>;
}

export async function worldForFile(store: TestStore): Promise<World> {
  const key = newTestKey("ES256", "key-1");
  const issuer = await forFile(startStaticIssuer([key.publicJwk]));
  const logKeys = () => (readKeyFile(store.settings.SVC_LEDGER_KEY) ?? []).map(({ publicKey }) => publicKey);
  const witness = await forFile(startWitness({ logKeys }));
  const env = await settingsOf(store, issuer, witness);
  const gateway = await gatewayForFile({ dataDir: store.folder, env });
  const withProofs = await gatewayForFile({
    dataDir: store.folder,
    env: { ...env, SVC_PROOF_OF_POSSESSION: "dpop", SVC_SESSION_CLIENTS: undefined, SVC_SESSION_KEY: undefined },
  });
  const clients = new Map([gateway, withProofs].map((each) => [each, wireClients(each.url)]));
  const clientOf = (of: Gateway, name: WireName) =>
    clients.get(of)?.find((client) => client.name === name) as WireClient;
  let bases = 1000;
  return {
    store,
    policies: env.SVC_POLICY_DIR as string,
    url: gateway.url,
    proofUrl: withProofs.url,
    opsUrl: gateway.opsUrl,
    wire: (name) => wireOf(name, gateway.url, clientOf(gateway, name), clientOf(withProofs, name)),
    tenants: () => (draws(0, 1) === 1 ? lookAlikes : namedLookAlikes)(String(++bases)),
    token: (tenant, claims = {}) =>
      mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id: tenant, scope, ...claims })),
    witnessKey: witness.key,
    async reading(look) {
      await using archive = await (await backendOf(store)).openArchive();
      return await look(archive);
    },
    keeping: (act) => administering(store, act),
  };
}

function wireOf(name: WireName, url: string, client: WireClient, withProof: WireClient): Wire {
  const [, openSession] = sessionCallers.find(([each]) => each === name) ?? [];
  if (openSession === undefined) throw new Error(`no sessions over ${name}`);
  const callOf =
    (each: WireClient): Wire["call"] =>
    (route, body, headers) => {
      const method = methodOn(route);
      return each.call(method, requestFromRest(method, body), headers);
    };
  return {
    name,
    call: callOf(client),
    callWithProof: callOf(withProof),
    openSession: (ask, headers) => openSession(url, ask, headers),
  };
}

async function settingsOf(
  { folder, settings }: TestStore,
  issuer: StaticIssuer,
  witness: TestWitness,
): Promise<Record<string, string>> {
  const [clientsPath, keyPath, policies] = [
    join(folder, "clients"),
    join(folder, "session.key"),
    join(folder, "policies"),
  ];
  writePolicies(policies);
  writeClients(clientsPath, sessionClientsOf(wireNames));
  writeFileSync(keyPath, newSessionKey().own, { mode: 0o600 });
  return {
    ...settings,
    ...everyApi,
    SVC_WITNESSES: witness.setting,
    SVC_WITNESS_QUORUM: "1",
    SVC_OIDC_ISSUER: issuer.url,
    SVC_POLICY_DIR: policies,
    SVC_SESSION_CLIENTS: clientsPath,
    SVC_SESSION_KEY: keyPath,
    SVC_TRUSTED_PROXIES: "127.0.0.1",
    SVC_KEY_REFERENCES: JSON.stringify({
      "kms://owned/*": { mode: "wrapped_key_reference", origin: "kms", tenants: tenantsWithSets.slice(0, 1) },
      "kms://*": { mode: "wrapped_key_reference", origin: "kms" },
    }),
  };
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

export { answerOf } from "../../harness/clients.ts";

/** Reason of the refusal; undefined where the call went well. */
export function reasonOf(outcome: Outcome): string | undefined {
  return "refusal" in outcome ? outcome.refusal.reason : undefined;
}

export function receiptOf(answer: unknown): GivenReceipt {
  const receipt = findReceipt(answer);
  if (receipt === undefined) throw new Error("an answer without a receipt");
  return receipt;
}

/** Expects every two of the values to differ. */
export function expectAllDifferent(values: readonly unknown[]): void {
  expect(new Set(values).size).toBe(values.length);
}
