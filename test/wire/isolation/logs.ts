/** Logs as they are published, and the receipts that stand on them. */
import { expect } from "vitest";
import { sampleCalls } from "../../../dev/requests.ts";
import { verifyReceipt } from "../../../src/ledger/record/receipt.ts";
import { logNameOf } from "../../../src/ledger/tlog/log-name.ts";
import { parseNote } from "../../../src/ledger/tlog/note.ts";
import { parseVerifierKey } from "../../../src/ledger/tlog/note-keys.ts";
import { parseCosignerKey } from "../../../src/ledger/witness/cosignature.ts";
import { answerOf, bearer, expectAllDifferent, type IsolationRow, receiptOf, type Wire, type World } from "./world.ts";

interface ListedLog {
  readonly name: string;
  readonly tenant_id: string;
  readonly origin: string;
  readonly size: number;
  readonly verifier_keys: readonly string[];
}

const route = "/v1/sdk/evidence";
const body = sampleCalls().find((call) => call.route === route)?.body;
const records = 3;

/** Each tenant's log has its own leaves alone, which name no person; receipts stand on their own log and no other. */
async function logsAreOwn(world: World, wire: Wire): Promise<void> {
  const tenants = world.tenants();
  const receipts = new Map<string, ReturnType<typeof receiptOf>[]>(tenants.map((tenant) => [tenant, []]));
  for (let round = 0; round < records; round++) {
    const ask = async (tenant: string) => answerOf(await wire.call(route, body, bearer(world.token(tenant))));
    const answers = await Promise.all(tenants.map(ask));
    for (const [at, tenant] of tenants.entries()) receipts.get(tenant)?.push(receiptOf(answers[at]));
  }
  const logs = await listLogs(world);
  const own = tenants.map((tenant) => logs.find((log) => log.tenant_id === tenant) as ListedLog);
  expectAllDifferent(own.map(({ name }) => name));
  for (const [at, log] of own.entries()) {
    const mine = receipts.get(tenants[at] as string) ?? [];
    expect(log.size).toBe(records + 1);
    const leaves = await leavesOf(world, log);
    expect(leaves.slice(1).map(({ record_id }) => record_id)).toEqual(mine.map(({ record_id }) => record_id));
    for (const leaf of leaves)
      expect(Object.keys(leaf).filter((member) => !publicMembers.includes(member))).toEqual([]);
    const foreign = own[(at + 1) % own.length] as ListedLog;
    await expectOwnCheckpoint(world, log);
    for (const receipt of mine) {
      expect(receipt.log_origin).toBe(log.origin);
      verifyReceipt(receipt, verifierOf(log));
      expect(() => verifyReceipt(receipt, verifierOf(foreign))).toThrow();
    }
  }
}

/** What the witness signed of a log stands on that log's checkpoint. */
async function expectOwnCheckpoint({ opsUrl, witnessKey }: World, log: ListedLog): Promise<void> {
  const { text, signatures } = parseNote(await (await fetch(`${opsUrl}/ledger/${log.name}/checkpoint`)).text());
  expect(text.startsWith(`${log.origin}\n`)).toBe(true);
  expect(signatures).toHaveLength(2);
  expect(parseCosignerKey(witnessKey)?.verify(text, signatures[1]?.signature ?? Buffer.alloc(0))).toBeGreaterThan(0);
}

/** With its own token, a tenant reads its own log; of another's it cannot even tell that it is there. */
async function tokensOpenOwnLogs(world: World, wire: Wire): Promise<void> {
  const tenants = world.tenants();
  const answers = tenants.map((tenant) => wire.call(route, body, bearer(world.token(tenant))));
  const names = (await Promise.all(answers)).map((outcome) => logNameOf(receiptOf(answerOf(outcome)).log_origin));
  for (const [at, tenant] of tenants.entries()) {
    const headers = bearer(world.token(tenant));
    const ask = async (path: string) => {
      const response = await fetch(`${world.opsUrl}/ledger${path}`, { headers });
      return { status: response.status, text: await response.text() };
    };
    const { logs } = JSON.parse((await ask("")).text) as { logs: ListedLog[] };
    expect(logs).toMatchObject([{ tenant_id: tenant, name: names[at] }]);
    for (const path of publishedPaths) {
      expect((await ask(`/${names[at]}/${path}`)).status, path).toBe(200);
      const foreign = await ask(`/${names[(at + 1) % names.length]}/${path}`);
      const never = await ask(`/${"0".repeat(32)}/${path}`);
      expect(withoutRequestId(foreign), path).toEqual(withoutRequestId(never));
      expect(foreign.status).toBe(404);
    }
  }
}

const publishedPaths = ["checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1", "consistency?from=1&to=2", "search"];

const withoutRequestId = ({ status, text }: { readonly status: number; readonly text: string }) => ({
  status,
  text: text.replace(/"request_id":"[^"]+"/, ""),
});

/** All that a leaf says. */
const publicMembers = ["v", "kind", "record_id", "recorded_at", "policy_revision", "commitment"];

async function listLogs({ opsUrl }: World): Promise<readonly ListedLog[]> {
  return ((await (await fetch(`${opsUrl}/ledger`)).json()) as { logs: ListedLog[] }).logs;
}

function verifierOf({ verifier_keys: [key = ""] }: ListedLog) {
  const verifier = parseVerifierKey(key);
  if (verifier === undefined) throw new Error("no verifier key");
  return verifier;
}

async function leavesOf({ opsUrl }: World, { name, size }: ListedLog): Promise<readonly Record<string, unknown>[]> {
  const response = await fetch(`${opsUrl}/ledger/${name}/tile/entries/000.p/${size}`);
  let rest = Buffer.from(await response.arrayBuffer());
  const leaves = [];
  while (rest.length > 0) {
    const end = 2 + rest.readUInt16BE(0);
    leaves.push(JSON.parse(rest.subarray(2, end).toString("utf8")));
    rest = rest.subarray(end);
  }
  return leaves;
}

export const logRows: readonly IsolationRow[] = [
  { thing: "a log and its receipts", tables: ["log_heads", "tiles", "cosignatures"], check: logsAreOwn },
  { thing: "the name of a log", tables: ["log_names"], check: tokensOpenOwnLogs },
];
