/** A whole deployment with a witness that answers wait for. */
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { parseNote } from "../../src/ledger/tlog/note.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { parseCosignerKey } from "../../src/ledger/witness/cosignature.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { startWitness, type TestWitness } from "../harness/witness.ts";

const route = "/v1/sdk/evidence";
let gateway: Gateway;
let witness: TestWitness;

beforeEach(async () => {
  let dataDir = "";
  const logKeys = () => (readKeyFile(join(dataDir, "ledger.key")) ?? []).map(({ publicKey }) => publicKey);
  witness = await startWitness({ logKeys });
  gateway = await startGateway({ env: { SVC_WITNESSES: witness.setting, SVC_WITNESS_QUORUM: "1" } });
  dataDir = gateway.dataDir;
});
afterEach(async () => {
  await gateway.stop();
  await witness.stop();
});

async function record() {
  const body = sampleCalls().find((call) => call.route === route)?.body;
  return rest(gateway.url + route, { token: await gateway.token(), body });
}

/** Names of the signers, after the witness's signature was verified. */
function signers(note: string): string[] {
  const { text, signatures } = parseNote(note);
  const own = signatures.find(({ name }) => name === "witness.example/w1");
  if (own !== undefined) expect(parseCosignerKey(witness.key)?.verify(text, own.signature)).toBeGreaterThan(0);
  return signatures.map(({ name }) => name);
}

test("receipts and checkpoints are cosigned, and nothing is answered without the witness", async () => {
  const { status, body } = await record();
  expect(status).toBe(200);
  const { proof, log_origin } = body.ingestion.receipt;
  expect(signers(parseTlogProof(proof).checkpoint)).toEqual([log_origin, "witness.example/w1"]);
  const name = log_origin.slice(log_origin.lastIndexOf("/") + 1);
  const checkpoint = await fetch(`${gateway.opsUrl}/ledger/${name}/checkpoint`);
  expect(signers(await checkpoint.text())).toEqual([log_origin, "witness.example/w1"]);
  expect((await fetch(`${gateway.opsUrl}/readyz`)).status).toBe(200);

  witness.answer = (response) => void response.writeHead(500).end();
  const refused = await record();
  expect([refused.status, refused.body.error.reason]).toEqual([503, "store_unavailable"]);
  const ready = await fetch(`${gateway.opsUrl}/readyz`);
  expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining("witness.example/w1: status 500")]);
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  expect(metrics).toContain('svc_witness_changes_total{witness="witness.example/w1",result="failed"} 1');

  witness.answer = undefined;
  expect((await record()).status).toBe(200);
});
