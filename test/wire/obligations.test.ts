/** Obligations and alerts of policies: from the request to the answer, the record, replay, search, log and metrics. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { answerDifferences } from "../../src/domain/lineage/answer-check.ts";
import { answerOf, type WireClient, wireClients } from "../harness/clients.ts";
import { folderForFile, writeFiles } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { recordIn } from "../harness/ledger.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { run, settingsForTest } from "../unit/cli/surroundings.ts";

const files = {
  "manifest.yaml": 'platform: platform\ntenants: { "*": default }\ndisclosable: [attributes.owner]\n',
  "platform/all.cedar": '@id("all") permit (principal, action, resource);\n',
  "default/some.cedar": `@id("ordinary") permit (principal, action, resource);
@id("noted") @obligation("note; why = claimed.purpose; days = 30; strict = true") @alert("break-glass")
permit (principal, action, resource) when { context.claimed.labels.contains("noted") };
@id("owned") @obligation("tell-owner; owner = registered.attributes.owner")
permit (principal, action, resource) when { context.claimed.labels.contains("owned") };
@id("closed") @obligation("tell; kind = claimed.resource.kind") @alert("tried")
forbid (principal, action, resource) when { context.claimed.labels.contains("closed") };\n`,
};
const about = { workload: { application: "wards" }, resource: { kind: "patient", id: "p-7" } };
const routes = {
  "/v1/sdk/protection-plan": { operation: "access", ...about },
  "/v1/sdk/policy-resolve": { operation: "access", ...about },
  "/v1/sdk/key-access-plan": { operation: "unwrap", ...about },
};
const note = { id: "note", parameters: { days: "30", strict: "true", why: "secret purpose" } };

const policies = folderForFile("obligations");
writeFiles(policies, files);
const gateway = await gatewayForFile({ env: { SVC_POLICY_DIR: policies } });
const clients = wireClients(gateway.url);
const token = await gateway.token();

async function call(client: WireClient, route: string, body: object) {
  const method = methodOn(route);
  return answerOf(await client.call(method, requestFromRest(method, body), { authorization: `Bearer ${token}` }));
}

const rest = () => clients.find(({ name }) => name === "REST") as WireClient;
const noted = { labels: ["noted"], purpose: "secret purpose" };

async function command(...words: string[]) {
  settingsForTest({ SVC_STORE: `sqlite:${join(gateway.dataDir, "platform.db")}`, SVC_POLICY_DIR: policies });
  return JSON.parse((await run(...words, "--json")).out);
}

test.each(Object.entries(routes))(
  "%s permits callers that understand the obligation, and denies all others, on every protocol",
  async (route, body) => {
    for (const client of clients) {
      const allowed = await call(client, route, { ...body, ...noted, understood_obligations: ["note", "other"] });
      expect(allowed.decision, client.name).toMatchObject({ allow: true, obligations: [note] });
      const { request, outcome } = recordIn(allowed);
      expect(request.understood_obligations).toEqual(["note", "other"]);
      expect(outcome).toMatchObject({ allow: true, obligations: [note], alerts: ["break-glass"] });

      for (const understood of [{}, { understood_obligations: [] }, { understood_obligations: ["Note"] }]) {
        const denied = await call(client, route, { ...body, ...noted, ...understood });
        expect(denied.decision, client.name).toMatchObject({
          ...{ allow: false, reasons: ["platform/obligation-not-understood"], obligations: [] },
        });
        expect((denied.execution ?? denied.handling).key_transport).toBeUndefined();
        const recorded = recordIn(denied);
        expect(recorded.outcome).toMatchObject({ allow: false, guidance: { evidence_expected: ["deny"] } });
        for (const member of ["obligations", "alerts"]) expect(recorded.outcome).not.toHaveProperty(member);
      }
    }
  },
);

test("a record has no new members if nothing obliges, alerts or is understood", async () => {
  const digests = new Set<string>();
  for (const client of clients) {
    const route = "/v1/sdk/protection-plan";
    const record = recordIn(await call(client, route, { ...routes[route], understood_obligations: [] }));
    expect(Object.keys(record.request)).not.toContain("understood_obligations");
    expect(Object.keys(record.outcome)).not.toEqual(expect.arrayContaining(["obligations"]));
    expect(Object.keys(record.outcome)).not.toEqual(expect.arrayContaining(["alerts"]));
    digests.add(record.request_digest);
  }
  expect(digests.size).toBe(1);
});

test("registered values are disclosed only if the manifest says so, for a known artifact", async () => {
  const artifact_digest = `sha256:${"ab".repeat(32)}`;
  const registration = { operation: "protect", artifact_profile: "tdf", artifact_digest, ...about };
  await call(rest(), "/v1/sdk/artifact-register", {
    ...registration,
    attributes: { owner: "dr-may", other: "hidden" },
  });
  const ask = async (more: object) =>
    await call(rest(), "/v1/sdk/protection-plan", {
      ...{ ...routes["/v1/sdk/protection-plan"], labels: ["owned"], understood_obligations: ["tell-owner"] },
      ...more,
    });
  const told = await ask({ artifact_digest });
  expect(told.decision.obligations).toEqual([{ id: "tell-owner", parameters: { owner: "dr-may" } }]);
  expect(recordIn(told).outcome.registered).toHaveLength(1);
  expect((await ask({})).decision.reasons).toEqual(["platform/obligation-without-value", "tenant/owned"]);
  // Registering again changes what the next decision says, whatever was cached.
  await call(rest(), "/v1/sdk/artifact-register", { ...registration, attributes: { owner: "dr-june" } });
  expect((await ask({ artifact_digest })).decision.obligations[0].parameters).toEqual({ owner: "dr-june" });
  const replayed = await command("policy", "replay", "--tenant", "tenant-a", "--decision", told.decision.decision_id);
  expect(replayed).toMatchObject({ status: "reproduced" });
});

test("a decision with obligations is replayed, explained and found by its alert, and its answer is checked against its record", async () => {
  const route = "/v1/sdk/key-access-plan";
  const answer = await call(rest(), route, { ...routes[route], ...noted, understood_obligations: ["note"] });
  const { decision } = answer;
  const replayed = await command("policy", "replay", "--tenant", "tenant-a", "--decision", decision.decision_id);
  expect(replayed).toMatchObject({ status: "reproduced", own: { differences: [] } });
  expect(replayed.recorded).toMatchObject({ obligations: [note], alerts: ["break-glass"] });
  const explained = await command("policy", "explain", "--tenant", "tenant-a", "--decision", decision.decision_id);
  expect(explained).toMatchObject({ allow: true, obligations: [note], alerts: ["break-glass"] });

  const found = async (alert: string) =>
    (await command("ledger", "search", "--tenant", "tenant-a", "--alert", alert)).found.map(
      ({ record_id }: { record_id: string }) => record_id,
    );
  expect(await found("break-glass")).toContain(decision.decision_id);
  expect(await found("tried")).not.toContain(decision.decision_id);
  expect(await found("break")).toEqual([]);

  const record = recordIn(answer);
  const differences = (obligations: unknown) =>
    answerDifferences({ ...answer, decision: { ...decision, obligations } }, record);
  expect(differences(decision.obligations)).toEqual([]);
  const changed = [
    [],
    undefined,
    [{ ...note, parameters: {} }],
    [...decision.obligations, { id: "more", parameters: {} }],
  ];
  for (const obligations of changed) expect(differences(obligations)).toEqual(["decision.obligations"]);
  const { obligations: _, ...outcome } = record.outcome;
  expect(answerDifferences(answer, { ...record, outcome })).toEqual(["decision.obligations"]);
});

test("an alert is one log line and one count, without the content of the request", async () => {
  const route = "/v1/sdk/protection-plan";
  const { decision } = await call(rest(), route, { ...routes[route], ...noted, understood_obligations: ["note"] });
  const line = gateway.logged.find((text) => text.includes(decision.decision_id) && text.includes("alert"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({
    ...{ level: "warn", message: "a policy that alerts decided", alert: "break-glass" },
    ...{ tenant_id: "tenant-a", decision_id: decision.decision_id },
  });
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  expect(metrics).toMatch(/^svc_policy_alerts_total\{tenant="tenant-a",alert="break-glass",allow="true"\} \d+$/m);
  const told = gateway.logged.join("\n") + metrics;
  for (const secret of ["secret purpose", "dr-may", "p-7", '"noted"']) expect(told).not.toContain(secret);
});

test("many denials of one principal within a minute are one event and one count", async () => {
  const route = "/v1/sdk/policy-resolve";
  const spikes = () => gateway.logged.filter((line) => line.includes("denials_spiked")).map((line) => JSON.parse(line));
  for (let n = 0; n < 45; n++) await call(rest(), route, { ...routes[route], labels: ["closed"] });
  // The calls may fall into two windows.
  expect([1, 2]).toContain(spikes().length);
  expect(spikes()[0]).toMatchObject({
    ...{ level: "warn", category: "security", event: "denials_spiked", denials: 20, window_ms: 60_000 },
    ...{ tenant_id: "tenant-a", principal_id: expect.any(String) },
  });
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  const line = `svc_tenant_denial_spikes_total{tenant="tenant-a",kind="principal"} ${spikes().length}`;
  expect(metrics.split("\n")).toContain(line);
});
