/** Profile `tdf` against a real service: what is protected, opened, rewrapped, and shown by its receipts. */
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createEnforcer,
  createTdfKeyFile,
  keyFile,
  receiptsPathOf,
  type TdfKey,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import { type EnforcementStack, enforcementFolder, failureOf, startEnforcementStack } from "../harness/enforcement.ts";

let stack: EnforcementStack;
const profile = "tdf";
const resource = { kind: "customer-record", id: "cust-1" };
const data = Buffer.from(Array.from({ length: 2_500_000 }, (_, i) => i % 249));

beforeAll(async () => {
  stack = await startEnforcementStack();
});
afterAll(() => stack.stop());
const { at, spool, files } = enforcementFolder("data", data);

test("a file is protected, opened and rewrapped, and its receipts show it", async () => {
  const logKeys = [await stack.logKey()];
  const url = "https://kas.example.com";
  for (const name of ["old", "other", "new"]) await createTdfKeyFile(at(`${name}.key`), url, name);
  const keys = await Promise.all(
    ["old", "other", "new"].map(async (name) => (await keyFile(at(`${name}.key`))) as TdfKey),
  );
  const enforcer = createEnforcer({
    client: stack.platform(),
    workload: { application: "payroll" },
    keys,
    spoolDirectory: at("spool"),
    attributeNamespace: "example.com",
    logKeys,
  });
  const labels = ["confidential"];
  const tdf = { keys: [["old"], ["other"]] };
  const named = { profile, resource, labels, purpose: "audit" } as const;
  const sealed = await enforcer.protect({ ...named, tdf, input: at("data"), output: at("sealed") });
  expect(sealed.evidence).toBe("recorded");
  await enforcer.open({ ...named, input: at("sealed"), output: at("opened") });
  expect(readFileSync(at("opened")).equals(data)).toBe(true);
  await enforcer.rewrap({ ...named, input: at("sealed"), output: at("rewrapped"), newKeyReference: "new" });
  await enforcer.open({ ...named, input: at("rewrapped"), output: at("again") });
  expect(readFileSync(at("again")).equals(data)).toBe(true);

  const verified = await verifyArtifact({ artifact: at("sealed"), logKeys });
  expect(verified).toMatchObject({ profile, artifactDigest: sealed.artifactDigest, keyReference: "old", labels });
  expect(await verifyArtifact({ artifact: at("rewrapped"), logKeys })).toMatchObject({
    operation: "rewrap",
    keyReference: "new",
    origin: { decisionId: sealed.decisionId, artifactDigest: sealed.artifactDigest },
  });
  expect(await verifyArtifact({ artifact: at("opened"), kind: "opened", logKeys })).toMatchObject({
    operation: "access",
    profile,
  });
  // Receipts of another file prove nothing about this one.
  writeFileSync(receiptsPathOf(at("rewrapped")), readFileSync(receiptsPathOf(at("sealed"))));
  expect(await failureOf(verifyArtifact({ artifact: at("rewrapped"), logKeys }))).toBe("not_authentic");
  expect(spool()).toEqual([]);
  expect(files().filter((name) => name.endsWith(".partial"))).toEqual([]);
});
