/**
 * What was registered holds, whatever a workload says later: over REST and gRPC, on every store, whichever replica is
 * asked. The policies are those of the cookbook.
 */

import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseTenantId, type RecordId, type TenantId } from "../../src/base/ids.ts";
import { rawCid } from "../../src/ledger/artifacts/cid.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { companionChecks } from "../../src/ledger/audit/companions.ts";
import { findReceipt } from "../../src/ledger/record/receipt.ts";
import { answerOf, type WireClient, wireClients } from "../harness/clients.ts";
import { writeFiles } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { administering, backendOf, recordIn } from "../harness/ledger.ts";
import { forFile } from "../harness/lifetimes.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { testStores } from "../harness/stores.ts";
import { run, settingsForTest } from "../unit/cli/surroundings.ts";
import { filesOf, readCookbook } from "../unit/policy/document.ts";
import type { Files } from "../unit/policy/harness.ts";

const scope = "platform-api.access policy.read keys.use artifacts.write";
const labels = ["restricted", "label-of-tenant-a"];
const key = "kms://a/1";
const hexOf = (text: string) => createHash("sha256").update(text).digest("hex");

/** The files of the cookbook that all cases share, and those of this one. */
function cookbook(): Files {
  const { base, cases } = readCookbook();
  const own = cases.find(({ headings }) => headings[1] === "What was registered holds");
  return { ...base, ...filesOf(own?.snippets ?? []) };
}

/** Decides by an attribute of the caller, what was registered, and entities. */
const byClearance = `@id("dossiers-by-clearance")
forbid (principal, action == Action::"access", resource)
when { context.claimed has purpose && context.claimed.purpose == "dossier" }
unless
{
  context has registered && context.registered.label_set_ever has max_rank && principal has clearance &&
  principal.clearance >= context.registered.label_set_ever.max_rank
};
`;
const declarations = `caller_attributes: { clearance: { type: whole_number } }
entities: { schema: org.cedarschema, files: [org.json], labels: Org::Label }
`;

function ranking(ranks: Readonly<Record<string, number>>): string {
  const ranked = Object.entries(ranks);
  return JSON.stringify(
    ranked.map(([id, rank]) => ({ uid: { type: "Org::Label", id }, attrs: { rank }, parents: [] })),
  );
}

/** The same, and what one test has besides. */
function directoryFiles(): Files {
  const files = cookbook();
  return {
    ...files,
    "manifest.yaml": `${files["manifest.yaml"]}${declarations}`,
    "org.cedarschema": "namespace Org {\n  entity Label = { rank: Long };\n}\n",
    "org.json": ranking({ secret: 3, top: 9 }),
    "platform/dossiers.cedar": byClearance,
  };
}

interface Asked {
  readonly principal?: string;
  readonly tenant?: string;
  readonly scopes?: string;
  readonly clearance?: number;
}

const issuer = await issuerForFile();

describe.each(testStores)("%s", async (storeName, startStore) => {
  const store = await forFile(startStore());
  const policies = join(store.folder, "policies");
  writeFiles(policies, directoryFiles());
  const env = { ...store.settings, SVC_OIDC_ISSUER: issuer.url, SVC_POLICY_DIR: policies };
  const first = await gatewayForFile({ dataDir: store.folder, env });
  const replicas = [first, await gatewayForFile({ dataDir: store.folder, env })];
  const clients = replicas.map(({ url }) => wireClients(url));
  let made = 0;

  const tenantOf = (text: string) => parseTenantId(text) as TenantId;
  const erase = async (recordId: RecordId) => {
    const statement = { reason: "request 7", operator: "olga" };
    const result = await administering(store, (administration) =>
      administration.erase(tenantOf("tenant-a"), [recordId], statement),
    );
    expect(result).toMatchObject({ erased: [{}] });
  };

  // Each store and each protocol once: what a protocol carries does not depend on the store.
  describe.each([storeName === "SQLite" ? "REST" : "gRPC"])("%s", (wire) => {
    /** Asks the replicas in turn. */
    const call = async (
      route: string,
      body: object,
      { principal = "owner", tenant = "tenant-a", scopes = "", ...others }: Asked,
    ) => {
      const own = clients[made++ % clients.length]?.find(({ name }) => name === wire) as WireClient;
      const claims = { tenant_id: tenant, principal_id: principal, scope: `${scope} ${scopes}`.trim(), ...others };
      const token = issuer.token(claims);
      const method = methodOn(`/v1/sdk/${route}`);
      return answerOf(await own.call(method, requestFromRest(method, body), { authorization: `Bearer ${token}` }));
    };
    const bodyOf = (id: string, more: object = {}) => ({
      workload: { application: "payroll" },
      resource: { kind: "record", id },
      ...more,
    });

    /** A new document: its id, and the digest of its artifact. */
    const newDocument = () => ({ id: `r-${wire}-${++made}`, hex: hexOf(`${wire} ${made}`) });
    type Document = ReturnType<typeof newDocument>;
    const planned = { operation: "protect", preferred_artifact_profile: "tdf" };
    const register = async ({ id, hex }: Document, more: object = {}, asked: Asked = {}) => {
      const { decision } = await call("protection-plan", { ...planned, ...bodyOf(id) }, asked);
      const members = { operation: "protect", artifact_profile: "tdf", artifact_digest: `sha256:${hex}`, labels };
      const cited = { decision_id: decision.decision_id, key_reference: key, ...more };
      const answer = await call("artifact-register", { ...members, ...bodyOf(id, cited) }, asked);
      expect(answer.registration.accepted).toBe(true);
      return findReceipt(answer)?.record_id as RecordId;
    };
    /** What the key's use is answered with, and why. */
    const open = async ({ id, hex }: Document, more: object = {}, asked: Asked = {}) => {
      const members = { operation: "unwrap", artifact_digest: `sha256:${hex}`, key_reference: key };
      const answer = await call("key-access-plan", { ...members, ...bodyOf(id, more) }, asked);
      return answer.decision.allow ? "opened" : answer.decision.reasons.join(" ");
    };
    const may = { scopes: "restricted.read" };
    const restricted = "platform/restricted-stays-restricted";
    const unknown = "platform/unknown-artifacts-stay-closed";
    const another = "platform/described-as-it-was-registered";

    test("opens for permitted principals, and for no other, on all three routes", async () => {
      const document = newDocument();
      const recordId = await register(document);
      expect(await open(document, {}, may)).toBe("opened");
      expect(await open(document)).toBe(restricted);
      for (const route of ["protection-plan", "policy-resolve"]) {
        const body = { operation: "access", artifact_digest: `sha256:${document.hex}`, ...bodyOf(document.id) };
        const answer = await call(route, body, {});
        expect(answer.decision).toMatchObject({ allow: false, reasons: [restricted] });
        const { outcome } = recordIn(answer);
        expect(outcome.registered).toEqual([{ leaf_index: expect.any(Number), record_id: recordId }]);
        // What was registered stays in its own record.
        expect(JSON.stringify([answer, recordIn(answer)])).not.toContain(labels[1]);
      }
    });

    test("omitting, changing or adding claims opens nothing", async () => {
      const [document, own] = [newDocument(), newDocument()];
      await register(document);
      await register(own, { labels: [] });
      expect(await open(own)).toBe("opened");
      const hidden = { artifact_digest: undefined };
      const said: readonly (readonly [object, string])[] = [
        [{ labels: [] }, restricted],
        [{ labels: ["public"] }, restricted],
        [{ labels: [...labels, "public"], attributes: { restricted: "no" } }, restricted],
        [hidden, unknown],
        [{ ...hidden, content_digest: `sha256:${document.hex}` }, unknown],
        [{ artifact_digest: `sha256:${own.hex}` }, another],
        [{ ...hidden, artifact_cid: rawCid(own.hex) }, another],
        // Two members that name different artifacts name none.
        [{ artifact_cid: rawCid(own.hex) }, unknown],
        [{ artifact_digest: `sha256:${own.hex}`, artifact_cid: rawCid(document.hex) }, unknown],
        [{ artifact_cid: rawCid(hexOf("of no artifact")) }, unknown],
      ];
      for (const [more, reason] of said) expect(await open(document, more), JSON.stringify(more)).toBe(reason);
      // Nor does another resource with the right artifact, or the right resource with another key.
      expect(await open({ ...document, id: own.id })).toBe(`${another} ${restricted}`);
      expect(await open(document, { key_reference: "kms://a/2" }, may)).toBe("platform/with-the-registered-key");
    });

    test("a second registration removes no label, and makes no stranger the owner", async () => {
      const [document, other] = [newDocument(), newDocument()];
      await register(document);
      await register(document, { labels: [] });
      expect(await open(document)).toBe(restricted);
      expect(await open(document, {}, may)).toBe("opened");
      const stranger = { principal: "stranger" };
      for (const more of [{ labels: [] }, { labels: [], decision_id: undefined }]) {
        await register({ ...document, id: other.id }, { ...more, key_reference: "kms://a/2" }, stranger);
        expect(await open(document, {}, stranger)).toBe(restricted);
        expect(await open({ ...document, id: other.id }, { key_reference: "kms://a/2" }, stranger)).toContain(another);
        expect(await open(document, {}, may)).toBe("opened");
      }
    });

    test("a stranger's claims about its own artifact open no other", async () => {
      const [document, own] = [newDocument(), newDocument()];
      await register(document);
      const stranger = { principal: "stranger" };
      const posing = { id: document.id, hex: own.hex };
      await register(posing, { labels: [] }, stranger);
      expect(await open(posing, {}, stranger)).toBe("platform/registered-by-registrars");
      const { decision } = await call(
        "protection-plan",
        { operation: "rewrap", artifact_digest: `sha256:${document.hex}`, ...bodyOf(document.id) },
        stranger,
      );
      expect(decision.reasons).toEqual(["platform/rewrapped-by-its-registrar"]);
    });

    test("a registration between two equal questions changes the second answer", async () => {
      const document = newDocument();
      // Each replica has answered, and remembers.
      for (const _ of replicas) expect(await open(document, {}, may)).toBe(unknown);
      await register(document, { key_reference: "kms://a/7" });
      for (const _ of replicas) expect(await open(document, {}, may)).toBe("platform/with-the-registered-key");
      await register(document);
      for (const _ of replicas) expect(await open(document, {}, may)).toBe("opened");
    });

    test("after an erasure nothing is known, whichever principal registers again", async () => {
      const document = newDocument();
      const recordId = await register(document);
      await erase(recordId);
      expect(await open(document, {}, may)).toBe(unknown);
      await register(document, { labels: [] });
      expect(await open(document, {}, may)).toBe(unknown);
    });

    test("decisions by every kind of fact replay and are explained after all facts changed", async () => {
      settingsForTest({ ...store.settings, SVC_POLICY_DIR: policies });
      const document = newDocument();
      const access = async (clearance: number) => {
        const body = { operation: "access", purpose: "dossier", artifact_digest: `sha256:${document.hex}` };
        return (await call("policy-resolve", { ...body, ...bodyOf(document.id) }, { clearance })).decision;
      };
      const command = async (word: string, { decision_id: id }: { readonly decision_id: string }) => {
        const { out, code } = await run("policy", word, "--tenant", "tenant-a", "--decision", id, "--json");
        return { ...JSON.parse(out), code };
      };
      const first = await register(document, { labels: ["secret"] });
      const decided = [await access(3), await access(2)];
      expect(decided).toMatchObject([{ allow: true }, { allow: false, reasons: ["platform/dossiers-by-clearance"] }]);

      const second = await register(document, { labels: ["top"] });
      expect(await access(3)).toMatchObject({ allow: false });
      writeFileSync(join(policies, "org.json"), ranking({ secret: 1, top: 2 }));
      for (const { app } of replicas) await app.reload();
      expect(await access(2)).toMatchObject({ allow: true });
      await erase(second);
      for (const [index, clearance] of [3, 2].entries()) {
        const replayed = await command("replay", decided[index]);
        expect(replayed).toMatchObject({ code: 0, status: "reproduced", own: { differences: [] } });
        expect(replayed.recorded.caller_attributes).toEqual({ clearance });
        // Asked what would be so now, the old facts meet the new ranks.
        expect(replayed.current.outcome.allow).toBe(true);
        const { allow, reasons } = decided[index];
        const explained = await command("explain", decided[index]);
        expect(explained).toMatchObject({ code: 0, allow, reasons });
        const read = JSON.stringify(explained.layers);
        for (const input of [`"caller.attributes.clearance":${clearance}`, '"registered.labels_ever":["secret"]'])
          expect(read).toContain(input);
      }
      await erase(first);
      for (const decision of decided)
        for (const word of ["replay", "explain"])
          expect(await command(word, decision)).toMatchObject({ ok: false, status: "erased", code: 1 });
    });
  });

  test("the store is sound, with its index of registrations", async () => {
    await using opened = await (await backendOf(store)).openArchive();
    for (const head of await opened.logs()) {
      const checks = companionChecks(await opened.companions(head), head, Date.now());
      expect(await auditLog(opened, head, { checks })).not.toHaveProperty("problem");
      expect(checks.flatMap(({ problems }) => problems)).toEqual([]);
    }
  });
});
