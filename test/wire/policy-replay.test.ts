/** Decisions of a running service, evaluated again from its store by the command line. */
import { cp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test, vi } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { folderForFile, folderForTest } from "../harness/folder.ts";
import { gatewayForFile, rest, unpolled } from "../harness/gateway.ts";
import { run } from "../unit/cli/surroundings.ts";
import { must } from "../unit/domain/world.ts";

const samples = join(import.meta.dirname, "../../policies");
/** Ids of one decision on each route that decides. */
const decisions: string[] = [];
let evidence: string;

const policies = folderForFile("policy-replay");
await cp(samples, policies, { recursive: true });
const gateway = await gatewayForFile({ env: { SVC_POLICY_DIR: policies }, overrides: unpolled });
const token = await gateway.token();
const tenant = (await rest(`${gateway.url}/v1/sdk/whoami`, { token })).body.caller.tenant_id;
for (const { route, body } of sampleCalls()) {
  const answer = await rest(gateway.url + route, { token, body });
  if (answer.body.decision !== undefined) decisions.push(answer.body.decision.decision_id);
  if (route.endsWith("evidence")) evidence = answer.body.ingestion.receipt.record_id;
}
for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
vi.stubEnv("SVC_STORE", `sqlite:${join(gateway.dataDir, "platform.db")}`);
vi.stubEnv("SVC_POLICY_DIR", policies);

afterAll(() => void vi.unstubAllEnvs());

const explain = (...options: string[]) => run("policy", "explain", ...options);

/** What the command answers as JSON, and its exit code. */
async function answerOf(...command: string[]) {
  const { out, code } = await run("policy", ...command, "--json");
  return { ...JSON.parse(out), code };
}

const explained = (...options: string[]) => answerOf("explain", ...options);
const replay = (decision: string, of = tenant) => answerOf("replay", "--decision", decision, "--tenant", of);

test("after three policy changes every decision replays, and shows how it would be decided now", async () => {
  expect(decisions).toHaveLength(3);
  const changes = ['@warning("one")', '@required_actions("two")', '@handling_mode("local_hardware_enforcement")'];
  for (const [index, annotation] of changes.entries()) {
    const policy = `@id("change-${index}") ${annotation} permit (principal, action, resource);`;
    await writeFile(join(policies, "default", `change-${index}.cedar`), policy);
    await gateway.app.reload();
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

test("the text form shows the decision, and each difference on a line", async () => {
  const written = await run("policy", "replay", samples, "--decision", decisions[0] ?? "", "--tenant", tenant);
  expect(written).toMatchObject({ err: "", code: 0 });
  expect(written.out.split("\n")).toEqual([
    expect.stringMatching(/^protect on \/v1\/sdk\/protection-plan at \S+Z: ALLOW, platform\/data-operations, /),
    expect.stringMatching(/^under its own revision sha256:\w+: the same$/),
    expect.stringMatching(/^under the current revision sha256:\w+: the same$/),
    "",
  ]);
});

test("a recorded decision is explained under its own revision or another, with a note of the one in force", async () => {
  const [decision = ""] = decisions;
  const own = await explained("--tenant", tenant, "--decision", decision);
  expect(own).toMatchObject({ ok: true, allow: true, code: 0, record: { record_id: decision } });
  expect(own.policy_revision).toBe(own.record.outcome.policy_revision);
  expect(own.reasons).toEqual(own.record.outcome.reasons);
  expect(own.warnings).toEqual([]);
  const now = await explained(policies, "--tenant", tenant, "--decision", decision);
  expect(now.policy_revision).not.toBe(own.policy_revision);
  expect(now.reasons).toContain("tenant/change-0");
  expect(now.warnings).toEqual([
    expect.stringMatching(
      /^this revision is not in force: the newest decision of \S+, of \S+Z, was made under sha256:/,
    ),
  ]);
  expect(now.warnings[0]).toContain(own.policy_revision);
  const { out } = await explain(policies, "--tenant", tenant, "--decision", decision);
  expect(out).toMatch(/^recorded at \S+Z as \S+: ALLOW under sha256:\w+, platform\/data-operations, /m);
  expect(out).toMatch(/^warning: this revision is not in force: /m);
});

test("the explanation of a new question notes the revision in force too", async () => {
  const asked = ["--tenant", tenant, "--action", "access", "--application", "a", "--kind", "k"];
  expect((await explained(samples, ...asked)).warnings).toEqual([]);
  expect((await explained(policies, ...asked)).warnings).toHaveLength(1);
  expect((await explained(policies, ...asked.with(1, "tenant-z"))).warnings).toEqual([]);
});

test("a decision is found by the id of its request, and read from a record or a receipt", async () => {
  const token = await gateway.token();
  const call = must(sampleCalls().find(({ route }) => route.endsWith("protection-plan")));
  const headers = { "x-request-id": "asked-once" };
  const { body } = await rest(gateway.url + call.route, { token, headers, body: call.body });
  const id = body.decision.decision_id;
  const found = await explained("--tenant", tenant, "--request-id", "asked-once");
  expect(found).toMatchObject({ code: 0, record: { record_id: id, request_id: "asked-once" } });

  const file = join(policies, "..", `answer-${id}.json`);
  const written = await run("ledger", "search", "--tenant", tenant, "--record", id, "--records", "--json");
  for (const text of [body, body.decision.receipt, JSON.parse(written.out).found[0].record].map((it) =>
    JSON.stringify(it),
  )) {
    await writeFile(file, text);
    const read = await explained(policies, "--request", file);
    expect(read).toMatchObject({ code: 0, reasons: found.reasons, record: { record_id: id } });
  }
  const { record: _, ...bare } = body.decision.receipt;
  for (const [text, problem] of [
    [JSON.stringify(bare), "the receipt has no record: it shows a position only"],
    [JSON.stringify({ record_id: id, kind: "evidence" }), "the record is not a decision"],
    [
      JSON.stringify({ record_id: id, kind: "decision", route: "/v1/sdk/protection-plan" }),
      "the record is not a decision",
    ],
  ] as const) {
    await writeFile(file, text);
    expect(await explained(samples, "--request", file)).toMatchObject({ code: 1, problems: [problem] });
  }
  await rm(file);

  await rest(gateway.url + call.route, { token, headers, body: call.body });
  expect(await explained("--tenant", tenant, "--request-id", "asked-once")).toMatchObject({
    code: 1,
    problems: [
      "--request-id: several decisions have this id; name one with --decision",
      expect.stringContaining(id),
      expect.any(String),
    ],
  });
});

test("recorded decisions that another directory decides differently are counted", async () => {
  const strict = folderForTest("policy-strict");
  await cp(samples, strict, { recursive: true });
  await writeFile(
    join(strict, "default", "no-plans.cedar"),
    '@id("no-plans") forbid (principal, action == Action::"protect", resource);',
  );
  const diff = (before: string, ...options: string[]) => answerOf("diff", before, strict, ...options);
  const { recorded, ways, code } = await diff(samples, "--since", "1h");
  expect([code, new Set(ways.map(({ kind }: { kind: string }) => kind))]).toEqual([1, new Set(["denies"])]);
  expect(recorded.compared).toBeGreaterThanOrEqual(decisions.length);
  const [denied] = recorded.ways;
  expect(denied).toMatchObject({
    kind: "denies",
    before: { allow: true },
    after: { allow: false, reasons: ["tenant/no-plans"] },
    callers: [{ tenant_id: tenant, application: expect.any(String), count: denied.count }],
    example: { tenant_id: tenant, decision_id: expect.any(String) },
  });
  expect((await explained(strict, "--tenant", tenant, "--decision", denied.example.decision_id)).allow).toBe(false);
  // Which decisions are compared does not depend on what differs.
  expect(await diff(strict, "--since", "1h", "--tenant", "tenant-z")).toMatchObject({
    code: 2,
    problems: ["tenant tenant-z has no log"],
  });
  expect((await diff(strict, "--since", "2999-01-01T00:00:00Z")).recorded.compared).toBe(0);
});

test.each([
  [["--decision", "x"], "--decision: is not a decision id"],
  [["--tenant", "../x", "--decision", "x"], "--tenant: is not a tenant id"],
  [["--tenant", "tenant-z", "--decision", "x"], "--decision: is not a decision id"],
  [["--tenant", "tenant-z", "--request-id", "x"], "--request-id: the tenant has no decision of a request with this id"],
  [["--tenant", "tenant-z", "--request-id", "x", "--decision", "y"], "--decision and --request-id exclude each other"],
  [
    ["--tenant", "tenant-z", "--request-id", "x", "--action", "access"],
    "--decision and --request-id take the place of",
  ],
])("explain %j is refused", async (options, problem) => {
  const { err, code } = await explain(...options);
  expect(err).toContain(problem);
  expect(code).toBe(1);
});

test("an unknown record is a failure with its reason", async () => {
  const [decision = ""] = decisions;
  expect(await replay(decision, "tenant-z")).toMatchObject({ ok: false, status: "unknown", code: 1 });
  expect(await replay(evidence)).toMatchObject({ status: "not_a_decision", code: 1 });
  expect(await replay("x")).toMatchObject({ problems: ["--decision: is not a decision id"], code: 1 });
  expect(await replay(decision, "../x")).toMatchObject({ problems: ["--tenant: is not a tenant id"], code: 1 });
});

test("an erased record is reported as erased, and a lost revision as missing", async () => {
  const [first = "", second = ""] = decisions;
  const database = new DatabaseSync(join(gateway.dataDir, "platform.db"), { timeout: 5_000 });
  database.prepare("DELETE FROM openings WHERE record_id = ?").run(first);
  expect(await explained("--tenant", tenant, "--decision", first)).toMatchObject({ status: "erased", code: 1 });
  expect(await replay(first)).toMatchObject({ ok: false, status: "erased", problems: ["erased"], code: 1 });
  database.exec("DELETE FROM policy_revisions");
  database.close();
  expect(await replay(second)).toMatchObject({ ok: false, status: "revision_missing", code: 1 });
});

test("an explanation says if its policies read registrations that the decision did not look up", async () => {
  const reads = folderForTest("policy-reads");
  await cp(samples, reads, { recursive: true });
  const embargo = 'context has registered && context.registered.labels.contains("embargo")';
  await writeFile(
    join(reads, "default", "embargo.cedar"),
    `@id("embargo") forbid (principal, action, resource) when { ${embargo} };`,
  );
  const call = must(sampleCalls().find(({ route }) => route.endsWith("protection-plan")));
  const body = { ...call.body, artifact_digest: `sha256:${"ab".repeat(32)}` };
  const answer = await rest(gateway.url + call.route, { token: await gateway.token(), body });
  const file = join(gateway.dataDir, "answer.json");
  await writeFile(file, JSON.stringify(answer.body));
  const decision = ["--tenant", tenant, "--decision", answer.body.decision.decision_id];
  const warning = expect.stringMatching(/^these policies read registrations, which were not looked up then: /);
  for (const named of [decision, ["--request", file]]) {
    expect((await explained(reads, ...named)).warnings).toContainEqual(warning);
    expect((await explained(policies, ...named)).warnings).not.toContainEqual(warning);
  }
});
