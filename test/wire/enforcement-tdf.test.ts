/** Profile `tdf` against a real service: what is protected, opened, rewrapped, and shown by its receipts. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { digestOfBytes } from "../../clients/typescript/src/enforce/data.ts";
import {
  bytesSource,
  createEnforcer,
  createTdfKeyFile,
  keyFile,
  type TdfKey,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import type { EvidenceEvent, Registration } from "../../clients/typescript/src/enforce/platform.ts";
import {
  afterManifest,
  beforeManifest,
  beforePayload,
  readContainer,
} from "../../clients/typescript/src/enforce/tdf-zip.ts";
import { enforcementFolder, failureOf, startEnforcementStack } from "../harness/enforcement.ts";
import { forFile } from "../harness/lifetimes.ts";

const profile = "tdf";
const resource = { kind: "customer-record", id: "cust-1" };
const data = Buffer.from(Array.from({ length: 2_500_000 }, (_, i) => i % 249));

const stack = await forFile(startEnforcementStack());
const { at } = enforcementFolder("data", data);

test("receipts show who made a file and its rewrap, and no manifest that is not the one of its assertion", async () => {
  const logKeys = [await stack.logKey()];
  const names = ["producer", "partner"];
  for (const name of names) await createTdfKeyFile(at(`${name}.key`), "https://kas.example.com", name);
  const keys = (await Promise.all(names.map((name) => keyFile(at(`${name}.key`))))) as TdfKey[];
  const honest = stack.platform();
  let sent: { readonly registration?: Registration; readonly event?: EvidenceEvent } = {};
  const enforcer = createEnforcer({
    client: stack.altered({
      registerArtifact: (registration, key, signal) => {
        sent = { ...sent, registration };
        return honest.registerArtifact(registration, key, signal);
      },
      recordEvidence: (event, key, signal) => {
        sent = { ...sent, event };
        return honest.recordEvidence(event, key, signal);
      },
    }),
    workload: { application: "payroll" },
    keys,
    spoolDirectory: at("spool"),
    attributeNamespace: "example.com",
    logKeys,
  });
  const { receipts } = await enforcer.protect({
    ...{ profile, resource, labels: ["confidential"], input: at("data"), output: at("honest") },
  });
  const file = readFileSync(at("honest"));
  const { payloadAt, payloadBytes, manifest } = await readContainer(bytesSource(file));
  const payload = file.subarray(payloadAt, payloadAt + payloadBytes);
  /** Verifies the file with this manifest, which the producer registers under the same decision. */
  const verified = async (text: string) => {
    const bytes = Buffer.from(text);
    const [stored, its] = [payload, bytes].map((part) => ({ crc: crc32(part), sizeBytes: part.length }));
    if (stored === undefined || its === undefined || sent.registration === undefined || sent.event === undefined)
      return expect.fail("nothing was sent");
    const parts = [beforePayload(false), payload, beforeManifest(stored, false), bytes];
    const artifact = Buffer.concat([...parts, afterManifest(stored, its, false)]);
    const { digest: artifact_digest, cid: artifact_cid } = digestOfBytes(bytes);
    const evidence_id = randomUUID();
    const named = { artifact_digest, artifact_cid };
    const registration = await honest.registerArtifact({ ...sent.registration, ...named }, randomUUID());
    const evidence = await honest.recordEvidence({ ...sent.event, ...named }, evidence_id);
    const own = { ...receipts.receipts, registration: registration.receipt, evidence: evidence.receipt };
    const told = { ...receipts, ...named, evidence_id, receipts: own } as typeof receipts;
    return verifyArtifact({ artifact: bytesSource(artifact), receipts: told, logKeys });
  };
  const honestText = manifest.toString();
  expect(await verified(honestText)).toMatchObject({ operation: "protect", labels: ["confidential"] });
  const { policy } = JSON.parse(honestText).encryptionInformation;
  const { uuid, body } = JSON.parse(Buffer.from(policy, "base64").toString());
  const open = { body: { ...body, dataAttributes: body.dataAttributes.slice(0, 1) }, uuid };
  const opened = Buffer.from(JSON.stringify(open)).toString("base64");
  for (const lie of [
    honestText.replace(policy, opened),
    honestText.replace("https://kas.example.com", "https://kas.example.org"),
    honestText.replace('"payload":{', '"payload":{},"payload":{'),
    `${honestText} `,
  ])
    expect(await failureOf(verified(lie))).toBe("not_authentic");
  const rewrapping = { profile, input: at("honest"), output: at("rewrapped"), newKeyReference: "partner" } as const;
  await enforcer.rewrap({ ...rewrapping, labels: ["confidential"] });
  expect(await verifyArtifact({ artifact: at("rewrapped"), logKeys })).toMatchObject({
    operation: "rewrap",
    keyReference: "partner",
    origin: { decisionId: receipts.decision_id, artifactDigest: receipts.artifact_digest },
  });
});
