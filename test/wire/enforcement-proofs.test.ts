/** Proofs beside artifacts that are put together from several valid ones, or were made by a dishonest producer. */
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  createEnforcer,
  localKey,
  receiptsPathOf,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import type { Platform } from "../../clients/typescript/src/enforce/platform.ts";
import { failureOf, saying } from "../harness/enforcement.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { makeProofs, startProvers, trySwaps } from "../harness/swapped-proofs.ts";

/** One in so many of all swaps; test/long/enforcement-swaps.test.ts tries thousands. */
const oneIn = 2_003;

const folder = folderForFile("proofs");
const at = (name: string) => join(folder, name);

const stack = await forFile(startProvers());
const logKeys = [await stack.logKey(), await stack.logKey("payroll-c")];
const proofs = await makeProofs(stack, folder);

test("every proof verifies, for its own kind only", async () => {
  for (const { path, kind } of proofs) {
    const { origin, isContentProven, isKeyCommitted } = await verifyArtifact({ artifact: path, kind, logKeys });
    expect(origin !== undefined).toBe(kind === "artifact");
    if (kind === "artifact") expect(isKeyCommitted).toBe(path.includes("signed") ? undefined : true);
    if (kind === "opened") expect(isContentProven).toBe(path.endsWith("signed-opened"));
    const other = kind === "artifact" ? "opened" : "artifact";
    expect(await failureOf(verifyArtifact({ artifact: path, kind: other, logKeys }))).toBe("not_authentic");
  }
});

test("a proof with any part of another proof is refused", async () => {
  const { tried, held } = await trySwaps(proofs, at("swapped"), oneIn, logKeys);
  expect(tried).toBeGreaterThan(50);
  expect(held).toEqual([]);
});

test("the receipts of an opened file do not prove an artifact", async () => {
  writeFileSync(at("evil.sealed"), randomBytes(1_000));
  copyFileSync(receiptsPathOf(at("opened")), receiptsPathOf(at("evil.sealed")));
  expect(await failureOf(verifyArtifact({ artifact: at("evil.sealed"), logKeys }))).toBe("not_authentic");
  const file = JSON.parse(readFileSync(receiptsPathOf(at("opened")), "utf8"));
  const zeros = { ...file, artifact_digest: `sha256:${"00".repeat(32)}` };
  writeFileSync(receiptsPathOf(at("evil.sealed")), JSON.stringify(zeros));
  const asOpened = { artifact: at("evil.sealed"), kind: "opened", logKeys } as const;
  expect(await failureOf(verifyArtifact(asOpened))).toBe("not_authentic");
});

test("an opened envelope proves its content only if it has the digest that was decided on", async () => {
  const honest = stack.platform();
  const content_digest = `sha256:${createHash("sha256")
    .update(readFileSync(at("plain")))
    .digest("hex")}`;
  const enforcer = createEnforcer({
    client: { ...honest, ...saying(honest, { content_digest }, "planProtection", "planKeyAccess") },
    workload: { application: "payroll-export" },
    keys: [localKey("one-key", Buffer.alloc(32, 1))],
    spoolDirectory: at("spool-digest"),
  });
  const opened = { artifact: at("opened-digest"), kind: "opened", logKeys } as const;
  await enforcer.open({ input: at("sealed"), output: opened.artifact, labels: ["confidential"], purpose: "audit" });
  expect((await verifyArtifact(opened)).isContentProven).toBe(true);
  writeFileSync(opened.artifact, "other data");
  expect(await failureOf(verifyArtifact(opened))).toBe("not_authentic");
});

/** A rewrap may be made of what came without receipts. */
test("a rewrap without the receipts of its source is reported", async () => {
  const { previous: _, ...file } = JSON.parse(readFileSync(receiptsPathOf(at("rewrapped")), "utf8"));
  copyFileSync(at("rewrapped"), at("alone"));
  writeFileSync(receiptsPathOf(at("alone")), JSON.stringify(file));
  expect((await verifyArtifact({ artifact: at("alone"), logKeys })).origin).toBeUndefined();
});

test("a rewrap of an opened file is refused", async () => {
  const [file, opened] = ["rewrapped", "opened"].map((name) =>
    JSON.parse(readFileSync(receiptsPathOf(at(name)), "utf8")),
  );
  copyFileSync(at("rewrapped"), at("of-opened"));
  writeFileSync(receiptsPathOf(at("of-opened")), JSON.stringify({ ...file, previous: opened }));
  expect(await failureOf(verifyArtifact({ artifact: at("of-opened"), logKeys }))).toBe("not_authentic");
});

/** A producer that asks about something else than it does. */
const dishonest: Readonly<Record<string, (honest: Platform) => Partial<Platform>>> = {
  "labels that were not decided": (honest) =>
    saying(honest, { labels: [] }, "planProtection", "planKeyAccess", "registerArtifact", "recordEvidence"),
  "labels that were decided of the plan alone": (honest) => saying(honest, { labels: [] }, "planKeyAccess"),
  "a key about which nothing was decided": (honest) =>
    saying(honest, { key_reference: "another-key" }, "planKeyAccess", "registerArtifact"),
  "the plan in place of the key decision": (honest) => {
    let plan: ReturnType<Platform["planProtection"]> | undefined;
    return {
      planProtection: (question, signal) => {
        plan = honest.planProtection(question, signal);
        return plan;
      },
      planKeyAccess: () => plan as NonNullable<typeof plan>,
    };
  },
  "another resource": (honest) => saying(honest, { resource: { kind: "public-notice", id: "1" } }, "planProtection"),
  "another event": (honest) => saying(honest, { event_type: "deny" }, "recordEvidence"),
  "an event that failed": (honest) => saying(honest, { outcome: "failed" }, "recordEvidence"),
};

test.each(Object.entries(dishonest))("a producer with %s is refused", async (name, alter) => {
  const enforcer = createEnforcer({
    client: { ...stack.platform(), ...alter(stack.platform()) },
    workload: { application: "payroll-export" },
    keys: [localKey("one-key", Buffer.alloc(32, 1))],
    spoolDirectory: at(`spool-${name.replaceAll(" ", "-")}`),
  });
  const output = at(`dishonest-${name.replaceAll(" ", "-")}`);
  const resource = { kind: "customer-record", id: "cust-8841" };
  const made = await enforcer
    .protect({ input: at("plain"), output, resource, labels: ["confidential"] })
    .catch(() => undefined);
  // The service itself may refuse it.
  if (made !== undefined) expect(await failureOf(verifyArtifact({ artifact: output, logKeys }))).toBe("not_authentic");
});

test("a name without a receipt, a file that is too large, and a pipe are refused at once", async () => {
  const path = receiptsPathOf(at("odd"));
  copyFileSync(at("sealed"), at("odd"));
  const file = JSON.parse(readFileSync(receiptsPathOf(at("sealed")), "utf8"));
  const verified = () => failureOf(verifyArtifact({ artifact: at("odd"), logKeys }));
  writeFileSync(path, JSON.stringify({ ...file, receipts: { ...file.receipts, more: file.receipts.plan } }));
  expect(await verified()).toBe("not_authentic");
  const isNewKey = { ...file.receipts, new_key_access: file.receipts.key_access };
  writeFileSync(path, JSON.stringify({ ...file, receipts: isNewKey }));
  expect(await verified()).toBe("not_authentic");
  writeFileSync(path, `${JSON.stringify(file)}${" ".repeat(5_000_000)}`);
  expect(await verified()).toBe("invalid");
  rmSync(path);
  execFileSync("mkfifo", [path]);
  expect(await verified()).toBe("invalid");
  rmSync(path);
  writeFileSync(path, JSON.stringify(file));
  rmSync(at("odd"));
  execFileSync("mkfifo", [at("odd")]);
  expect(await verified()).toBe("invalid");
});
