/**
 * Decisions by caller attributes, registered facts and entities together come out again, and are explained with the values
 * that they read, whatever became of all three since.
 */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { RecordId } from "../../../src/base/ids.ts";
import { findReceipt } from "../../../src/ledger/record/receipt.ts";
import { rest } from "../../harness/gateway.ts";
import type { TestStore } from "../../harness/stores.ts";
import type { Members } from "../../harness/tokens.ts";
import { run, settingsForTest } from "../../unit/cli/surroundings.ts";
import type { Files } from "../../unit/policy/harness.ts";

/** What the deployment's directory holds for these decisions, beside its other policies. */
export const dossierFiles: Files = {
  "org.cedarschema": "namespace Org {\n  entity Label = { rank: Long };\n}\n",
  "org.json": ranking({ secret: 3, top: 9 }),
  "platform/dossiers.cedar": `@id("dossiers-by-clearance")
forbid (principal, action == Action::"access", resource)
when { context.claimed.resource.kind == "dossier" }
unless
{
  context has registered &&
  context.registered.label_set_ever has max_rank &&
  principal has clearance &&
  principal.clearance >= context.registered.label_set_ever.max_rank
};

@id("dossiers-by-owner")
forbid (principal, action == Action::"access", resource)
when { context.claimed.resource.kind == "dossier" }
unless
{
  principal has teams && context has registered && context.registered.attributes.hasTag("team") &&
  principal.teams.contains(context.registered.attributes.getTag("team"))
};
`,
};

/** Added to the manifest. */
export const dossierDeclarations = `caller_attributes:
  clearance: { type: whole_number }
  teams: { type: set_of_text, claim: realm_access.roles }
entities:
  schema: org.cedarschema
  files: [org.json]
  labels: Org::Label
`;

function ranking(ranks: Readonly<Record<string, number>>): string {
  return JSON.stringify(
    Object.entries(ranks).map(([id, rank]) => ({ uid: { type: "Org::Label", id }, attrs: { rank }, parents: [] })),
  );
}

/** A deployment that has the files. */
export interface Deployment {
  readonly store: TestStore;
  readonly policies: string;
  /** Base URLs of the replicas. */
  readonly urls: readonly string[];
  /** Takes the directory up on every replica. */
  reload(): Promise<void>;
  token(claims: Members): string;
  erase(recordId: RecordId): Promise<void>;
}

const tenant = "tenant-a";
const byClearance = "platform/dossiers-by-clearance";
const byOwner = "platform/dossiers-by-owner";
const members = {
  ...{ workload: { application: "archive" }, resource: { kind: "dossier", id: "d-1" } },
  artifact_digest: `sha256:${createHash("sha256").update("a dossier").digest("hex")}`,
};

export async function recordedFactsHold(deployment: Deployment): Promise<void> {
  const { policies, store, urls } = deployment;
  let made = 0;
  const call = async (route: string, body: object, claims: Members, headers: Record<string, string> = {}) => {
    const token = deployment.token(claims);
    const url = `${urls[made++ % urls.length]}/v1/sdk/${route}`;
    const answer = await rest(url, { token, body: { ...members, ...body }, headers });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const register = async (facts: object, principal = "owner"): Promise<RecordId> => {
    const claims = { principal_id: principal };
    const planned = { operation: "protect", preferred_artifact_profile: "tdf", artifact_digest: undefined };
    const { decision } = await call("protection-plan", planned, claims);
    const cited = { operation: "protect", artifact_profile: "tdf", decision_id: decision.decision_id };
    return findReceipt(await call("artifact-register", { ...cited, ...facts }, claims))?.record_id as RecordId;
  };
  const cleared = { clearance: 3, realm_access: { roles: ["archive", "desk"] } };
  const uncleared = { clearance: 2, realm_access: { roles: ["desk"] } };
  const access = async (caller: Members, requestId = `now-${made}`) =>
    (
      await call(
        "policy-resolve",
        { operation: "access" },
        { principal_id: "owner", ...caller },
        { "x-request-id": requestId },
      )
    ).decision;
  const answerOf = async (...words: readonly string[]) => {
    const { out, code } = await run("policy", ...words, "--tenant", tenant, "--json");
    return { ...JSON.parse(out), code };
  };

  settingsForTest({ ...store.settings, SVC_POLICY_DIR: policies });
  const first = await register({ labels: ["secret"], attributes: { team: "archive" }, key_reference: "kms://d/1" });
  const allowed = await access(cleared, "dossier-allowed");
  const denied = await access(uncleared, "dossier-denied");
  expect([allowed, denied]).toMatchObject([
    { allow: true, policy_inputs: expect.arrayContaining(["caller.attributes.clearance", "registered.labels_ever"]) },
    { allow: false, reasons: [byClearance, byOwner] },
  ]);

  /** Both decisions, with all that they read then. */
  const expectAsTheyWere = async () => {
    for (const [decision, named, claims] of [
      [allowed, ["--decision", allowed.decision_id], cleared],
      [denied, ["--request-id", "dossier-denied"], uncleared],
    ] as const) {
      const replayed = await answerOf("replay", "--decision", decision.decision_id);
      expect(replayed).toMatchObject({ code: 0, ok: true, status: "reproduced", own: { differences: [] } });
      const attributes = { clearance: claims.clearance, teams: claims.realm_access.roles };
      expect(replayed.recorded.caller_attributes).toEqual(attributes);
      const explained = await answerOf("explain", ...named);
      expect(explained).toMatchObject({ code: 0, allow: decision.allow, reasons: decision.reasons });
      expect(valuesRead(explained)).toMatchObject({
        "caller.attributes.clearance": claims.clearance,
        "caller.attributes.teams": claims.realm_access.roles,
        "registered.labels_ever": ["secret"],
        "registered.attributes.team": "archive",
      });
    }
  };
  // A stranger registers it again.
  await register({ labels: ["top"], attributes: { team: "desk" }, key_reference: "kms://d/2" }, "stranger");
  expect(await access(cleared)).toMatchObject({ allow: true });

  // Its owner does, and the same caller has other attributes.
  const second = await register({ labels: ["top"], attributes: { team: "desk" }, key_reference: "kms://d/2" });
  expect(await access(cleared)).toMatchObject({ allow: false, reasons: [byClearance] });
  expect(await access({ ...cleared, clearance: 0, realm_access: { roles: [] } })).toMatchObject({ allow: false });

  // The labels get other ranks.
  writeFileSync(join(policies, "org.json"), ranking({ secret: 1, top: 2 }));
  await deployment.reload();
  expect(await access(uncleared)).toMatchObject({ allow: true });
  // Asked what would be so now, the old facts meet the new ranks.
  const { current } = await answerOf("replay", "--decision", denied.decision_id);
  expect(current.outcome).toMatchObject({ allow: false, reasons: [byOwner] });

  await deployment.erase(second);
  expect(await access(cleared)).toMatchObject({ allow: false, reasons: expect.arrayContaining([byClearance]) });
  await expectAsTheyWere();

  await deployment.erase(first);
  for (const { decision_id: id } of [allowed, denied])
    for (const command of ["replay", "explain"])
      expect(await answerOf(command, "--decision", id)).toMatchObject({ ok: false, status: "erased", code: 1 });
  expect(await answerOf("explain", "--request-id", "dossier-allowed")).toMatchObject({ status: "erased", code: 1 });
}

interface Explained {
  readonly layers: readonly {
    readonly policies: readonly {
      readonly inputs: object;
      readonly unmet: readonly { readonly inputs: object }[];
    }[];
  }[];
}

/** Every input that any policy was shown to read. */
function valuesRead({ layers }: Explained): object {
  const policies = layers.flatMap((layer) => layer.policies);
  return Object.assign({}, ...policies.flatMap(({ inputs, unmet }) => [inputs, ...unmet.map((each) => each.inputs)]));
}
