/** COSE receipts (RFC 9942) of every kind of record, verified by a public library: scitt-cose. */
import { createPublicKey } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import type { GivenReceipt } from "../../src/ledger/record/receipt.ts";
import { parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { formatVerifierKey, signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { LogSigner } from "../../src/ledger/tlog/signer.ts";
import { checkpointOfProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { logKeyOf } from "../harness/ledger.ts";
import { pythonForFile } from "../harness/python.ts";

const program = `
import base64, json, sys
from scitt_cose.receipt import verify_receipt

for line in open(sys.argv[1]):
    given = json.loads(line)
    result = verify_receipt(
        base64.b64decode(given["cose"]),
        leaf_entry_hex=base64.b64decode(given["leaf"]).hex(),
        log_public_key_pem=given["key"],
    )
    said = {"ok": result.ok, "size": result.tree_size, "index": result.leaf_index}
    print(json.dumps(said | {"origin": result.issuer, "subject": result.subject}))
`;
const holders = {
  "protection-plan": "decision",
  "policy-resolve": "decision",
  "key-access-plan": "decision",
  "artifact-register": "registration",
  evidence: "ingestion",
} as const;

const python = await pythonForFile("scitt-cose==0.5.0");
const gateway = await gatewayForFile();
const token = await gateway.token();
const receipts: (GivenReceipt & { readonly cose: string; readonly leaf: string })[] = [];
for (const [route, holder] of Object.entries(holders)) {
  const body = sampleCalls().find((call) => call.route.endsWith(route))?.body;
  const headers = { "x-svc-receipt": "cose" };
  const answer = await rest(`${gateway.url}/v1/sdk/${route}`, { token, body, headers });
  receipts.push(answer.body[holder].receipt);
}

interface Given {
  readonly cose: string;
  readonly leaf: string;
  readonly key?: string;
}

/** What the library says of each. */
function verify(given: readonly Given[]) {
  const [own] = readKeyFile(join(gateway.dataDir, "ledger.key")) ?? [];
  if (own === undefined) throw new Error("no key");
  const key = String(createPublicKey(own.privateKey).export({ format: "pem", type: "spki" }));
  return python.judge(
    program,
    given.map((each) => ({ key, ...each })),
  );
}

test("receipts of decisions, registrations and events verify, and name the log and the tree", async () => {
  expect(receipts).toHaveLength(5);
  expect(await verify(receipts)).toEqual(
    receipts.map(({ log_origin, tree_size, leaf_index }) => ({
      ...{ ok: true, size: tree_size, index: leaf_index },
      ...{ origin: log_origin, subject: `${tree_size}` },
    })),
  );
});

test("the verifier in plain Python accepts its receipt, and refuses another's or a changed one", async () => {
  const [first, second] = receipts as [(typeof receipts)[number], (typeof receipts)[number]];
  const vkey = logKeyOf(join(gateway.dataDir, "ledger.key"), first.log_origin);
  const program = new URL("../../examples/verifier/verify.py", import.meta.url).pathname;
  const verdicts = async (cose: string, proof = first.proof, ...others: readonly string[]) => {
    const file = join(python.folder, "receipt.json");
    writeFileSync(file, JSON.stringify({ ...first, cose, proof }));
    return python.run("python", [program, "receipt", file, ...others, "--key", vkey]).then(
      (out) => JSON.parse(out).ok,
      (error: Error) => error.message,
    );
  };
  expect(await verdicts(first.cose)).toBe(true);
  expect(await verdicts(second.cose)).toContain("the COSE receipt is not of this leaf and tree");
  const changed = Buffer.from(first.cose, "base64");
  changed.writeUInt8(changed.readUInt8(changed.length - 1) ^ 1, changed.length - 1);
  expect(await verdicts(changed.toString("base64"))).toContain("has a wrong signature by the trusted key");
  // Also if another trusted key is believed on the checkpoint, as in the overlap of a rotation.
  const other = signingKeyOf(Buffer.alloc(32, 7));
  const { origin, size, root } = parseCheckpoint(checkpointOfProof(first.proof));
  const line = new LogSigner([other]).sign({ origin, size, root }).split("\n\n").at(-1);
  const both = [first.proof + line, "--key", formatVerifierKey(origin, other.publicKey)] as const;
  expect(await verdicts(first.cose, ...both)).toBe(true);
  expect(await verdicts(changed.toString("base64"), ...both)).toContain("has a wrong signature by the trusted key");
});

test("a receipt is refused for another leaf, by another key, and with any byte changed", async () => {
  const other = createPublicKey(signingKeyOf(Buffer.alloc(32, 7)).privateKey).export({ format: "pem", type: "spki" });
  const changed: Given[] = [];
  for (const [i, { cose, leaf }] of receipts.entries()) {
    changed.push({ cose, leaf: receipts[(i + 1) % receipts.length]?.leaf as string });
    changed.push({ cose, leaf, key: String(other) });
    const bytes = Buffer.from(cose, "base64");
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ 1;
      changed.push({ cose: flipped.toString("base64"), leaf });
    }
  }
  const verified = (await verify(changed)).flatMap(({ ok }, i) => (ok ? [changed[i]] : []));
  expect(verified).toEqual([]);
});
