/** Decisions of a running service, evaluated again from its store by the command line. */
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { runCommandLine } from "../../src/cli/run.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { captureTerminal } from "../unit/cli/terminal.ts";

const samples = join(import.meta.dirname, "../../policies");
let policies: string;
let gateway: Gateway;
let tenant: string;
/** Ids of one decision on each route that decides. */
const decisions: string[] = [];
let evidence: string;

beforeAll(async () => {
  policies = await mkdtemp(join(tmpdir(), "policy-replay-"));
  await cp(samples, policies, { recursive: true });
  gateway = await startGateway({ env: { SVC_POLICY_DIR: policies, SVC_POLICY_POLL_MS: "3600000" } });
  const token = await gateway.token();
  tenant = (await rest(`${gateway.url}/v1/sdk/whoami`, { token })).body.caller.tenant_id;
  for (const { route, body } of sampleCalls()) {
    const answer = await rest(gateway.url + route, { token, body });
    if (answer.body.decision !== undefined) decisions.push(answer.body.decision.decision_id);
    if (route.endsWith("evidence")) evidence = answer.body.ingestion.receipt.record_id;
  }
  for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  vi.stubEnv("SVC_STORE", `sqlite:${join(gateway.dataDir, "platform.db")}`);
  vi.stubEnv("SVC_POLICY_DIR", policies);
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.stop();
  await rm(policies, { recursive: true });
});

async function replay(decision: string, of = tenant, ...more: string[]) {
  const { terminal, written } = captureTerminal();
  const command = ["policy", "replay", "--decision", decision, "--tenant", of, ...more];
  await runCommandLine([...command, "--json"], terminal);
  return { ...JSON.parse(written.out), code: written.code };
}

test("after three policy changes every decision comes out again, and shows what would be different now", async () => {
  expect(decisions).toHaveLength(3);
  const changes = ['@warning("one")', '@required_actions("two")', '@handling_mode("local_hardware_enforcement")'];
  for (const [index, annotation] of changes.entries()) {
    const policy = `@id("change-${index}") ${annotation} permit (principal, action, resource);`;
    await writeFile(join(policies, "default", `change-${index}.cedar`), policy);
    await gateway.app.reloadPolicy();
  }
  for (const decision of decisions) {
    const answer = await replay(decision);
    expect(answer).toMatchObject({ ok: true, status: "reproduced", same_engine: true, code: 0 });
    expect(answer.own.differences).toEqual([]);
    expect(answer.own.policy_revision).toBe(answer.recorded.policy_revision);
    expect(answer.current.policy_revision).not.toBe(answer.own.policy_revision);
    const members = answer.current.differences.map(({ member }: { member: string }) => member);
    expect(members).toEqual(["guidance.handling_mode", "guidance.required_actions", "guidance.warnings", "reasons"]);
  }
});

test("for a person: what was decided, and line by line what differs", async () => {
  const { terminal, written } = captureTerminal();
  await runCommandLine(["policy", "replay", samples, "--decision", decisions[0] ?? "", "--tenant", tenant], terminal);
  expect(written).toMatchObject({ err: "", code: 0 });
  expect(written.out.split("\n")).toEqual([
    expect.stringMatching(/^protect on \/v1\/sdk\/protection-plan at \S+Z: ALLOW, platform\/data-operations, /),
    expect.stringMatching(/^under its own revision sha256:\w+: the same$/),
    expect.stringMatching(/^under the current revision sha256:\w+: the same$/),
    "",
  ]);
});

test("what is not there is a failure that says why", async () => {
  const [decision = ""] = decisions;
  expect(await replay(decision, "tenant-z")).toMatchObject({ ok: false, status: "unknown", code: 1 });
  expect(await replay(evidence)).toMatchObject({ status: "not_a_decision", code: 1 });
  expect(await replay("x")).toMatchObject({ problems: ["--decision: is no decision id"], code: 1 });
  expect(await replay(decision, "../x")).toMatchObject({ problems: ["--tenant: is no tenant id"], code: 1 });
});

test("an erased record is erased, and a revision that is gone is missing", async () => {
  const [first = "", second = ""] = decisions;
  const database = new DatabaseSync(join(gateway.dataDir, "platform.db"), { timeout: 5_000 });
  database.prepare("DELETE FROM openings WHERE record_id = ?").run(first);
  expect(await replay(first)).toMatchObject({ ok: false, status: "erased", problems: ["erased"], code: 1 });
  database.exec("DELETE FROM policy_revisions");
  database.close();
  expect(await replay(second)).toMatchObject({ ok: false, status: "revision_missing", code: 1 });
});
