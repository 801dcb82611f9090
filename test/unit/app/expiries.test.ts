import { readFileSync } from "node:fs";
import { utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { validityOf, watchKeyFiles } from "../../../src/app/followed-files.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { folderForTest } from "../../harness/folder.ts";

const ofServer = join(import.meta.dirname, "../config/fixtures/server.crt.pem");
const ofClient = join(import.meta.dirname, "../auth/fixtures/client.crt.pem");

test("key files report their time of last change", async () => {
  const ledgerKey = join(folderForTest("expiries"), "ledger.key");
  const metrics = createMetrics({ process: false });
  const absent = { tlsKey: undefined, opsTlsKey: undefined, dpopNonceKey: undefined };
  watchKeyFiles({ ...absent, ledgerKey, sessionKey: "/nowhere" }, metrics);
  expect((await metrics.expose()).body).not.toContain("SVC_LEDGER_KEY");
  // It is made at the first start, and replaced by rotations.
  await writeFile(ledgerKey, "a key");
  await utimes(ledgerKey, 1_700_000_000, 1_700_000_000);
  const { body } = await metrics.expose();
  expect(body.split("\n")).toContain('svc_key_file_timestamp_seconds{setting="SVC_LEDGER_KEY"} 1700000000');
  expect(body).not.toContain("SVC_SESSION_KEY");
});

test("of several certificates, the first expiry and the last start count", () => {
  const [one, other] = [ofServer, ofClient].map((file) => readFileSync(file, "utf8"));
  const [first, second] = [validityOf(one ?? ""), validityOf(other ?? "")];
  expect(first.notAfterMs).toBeGreaterThan(second.notAfterMs);
  expect(first.notBeforeMs).toBeGreaterThan(second.notBeforeMs);
  for (const both of [`${one}${other}`, `${other}${one}`])
    expect(validityOf(both)).toEqual({ notBeforeMs: first.notBeforeMs, notAfterMs: second.notAfterMs });
});
