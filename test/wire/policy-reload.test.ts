/** A policy directory that changes under a running service. */
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { startIssuer } from "../../dev/issuer.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { serviceSettings, startService } from "../harness/process.ts";

const samples = join(import.meta.dirname, "../../policies");
const plan = { operation: "protect", workload: { application: "payroll" }, resource: { kind: "record" } };

const directory = folderForFile("policy-reload");
let token: string;

beforeEach(async () => {
  await rm(join(directory, "active"), { recursive: true, force: true });
  await cp(samples, join(directory, "active"), { recursive: true });
});

async function start(policyPollMs = 100): Promise<Gateway> {
  const env = { SVC_POLICY_DIR: join(directory, "active") };
  const gateway = await forTest(startGateway({ env, overrides: { limits: { policyPollMs } } }));
  token = await gateway.token();
  return gateway;
}

const write = (file: string, text: string) => replaceFile(join(directory, file), text);

const permit = (annotation: string) => `@id("some") ${annotation}\npermit (principal, action, resource);\n`;

/** Asks again and again, but not so fast that the check has no processor left. */
async function until<T>(look: () => Promise<T>, good: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (good(seen)) return seen;
    await setTimeout(20);
  }
}

const ask = async ({ url }: Gateway) => (await rest(`${url}/v1/sdk/protection-plan`, { token, body: plan })).body;
const ready = async ({ opsUrl }: Gateway) => await rest(`${opsUrl}/readyz`, {});
const metricsOf = async ({ opsUrl }: Gateway) => await (await fetch(`${opsUrl}/metrics`)).text();
const checkOf = (answer: { body: { checks: { name: string }[] } }) =>
  answer.body.checks.find(({ name }) => name === "policy");

test("a changed directory takes effect without a restart; a bad one does not, and is reported", async () => {
  const running = await start();
  const first = await ask(running);
  expect(first.decision.handling_mode).toBe("local_embedded_enforcement");

  write("active/default/more.cedar", permit('@handling_mode("local_hardware_enforcement")'));
  const second = await until(
    () => ask(running),
    ({ decision }) => decision.policy_revision !== first.decision.policy_revision,
  );
  expect(second.decision.handling_mode).toBe("local_hardware_enforcement");

  write("active/default/more.cedar", permit('@handling_mode("unheard_of")'));
  const refused = await until(
    () => ready(running),
    (answer) => JSON.stringify(answer.body).includes("refused"),
  );
  expect(refused.status).toBe(200);
  expect(checkOf(refused)).toEqual({
    name: "policy",
    status: "ok",
    reason: "a newer policy set was refused; problems named in the log: 1",
  });
  expect((await ask(running)).decision.policy_revision).toBe(second.decision.policy_revision);
  const { body: bootstrap } = await rest(`${running.url}/v1/sdk/bootstrap`, { token });
  expect(bootstrap.platform_domains).toContainEqual({
    domain: "policy",
    configured: true,
    reason: `Policy revision ${second.decision.policy_revision} is in force; a newer policy set was refused.`,
  });
  expect(await metricsOf(running)).toContain("svc_policy_stale 1");
  const line = running.logged.find((candidate) => candidate.includes("policy set refused"));
  expect(JSON.parse(line ?? "{}").problems).toEqual([
    expect.stringMatching(/^default\/more\.cedar:1: @handling_mode must be in the manifest's strictness order/),
  ]);

  await rm(join(directory, "active/default/more.cedar"));
  await until(
    () => ready(running),
    (answer) => !JSON.stringify(answer.body).includes("refused"),
  );
  const third = await until(
    () => ask(running),
    ({ decision }) => decision.policy_revision === first.decision.policy_revision,
  );
  expect(third.decision.handling_mode).toBe("local_embedded_enforcement");
  const metrics = await metricsOf(running);
  expect(metrics).toContain("svc_policy_stale 0");
  expect(metrics).toContain('svc_policy_loads_total{result="loaded"} 3');
  expect(metrics.match(/^svc_policy_revision_info.*$/gm)).toEqual([
    `svc_policy_revision_info{revision="${first.decision.policy_revision}"} 1`,
  ]);
});

test("under load, no answer mixes two policy sets", async () => {
  const running = await start(3_600_000);
  // Reason, guidance of two policies and the revision all change together, or not at all.
  const seen = new Map<string, Set<string>>();
  let reloads = 0;
  let stop = false;
  let answers = 0;
  let refusals = 0;
  const caller = async () => {
    while (!stop) {
      const { status, body } = await rest(`${running.url}/v1/sdk/policy-resolve`, { token, body: plan });
      answers++;
      if (status !== 200) refusals++;
      const { decision, handling, warnings } = body;
      const said = JSON.stringify([decision.reasons, decision.required_actions, handling.bind_policy_to, warnings]);
      seen.set(decision.policy_revision, (seen.get(decision.policy_revision) ?? new Set()).add(said));
    }
  };
  const callers = Array.from({ length: 4 }, caller);
  const reloadsInAll = 4;
  while (reloads < reloadsInAll) {
    const set = reloads++ % 3;
    const text = set === 2 ? "permit (" : permit(`@required_actions("act-${set}") @warning("set ${set}")`);
    write("active/default/a.cedar", text);
    write("active/platform/b.cedar", text.replace("some", "other").replace("act-", "do-").replace("set ", "the set "));
    await running.app.reload();
    const enough = answers + 20;
    await until(
      () => ready(running),
      () => answers >= enough,
    );
  }
  stop = true;
  await Promise.all(callers);
  expect(refusals).toBe(0);
  expect(running.logged.filter((line) => line.includes("policy set refused"))).toHaveLength(1);
  // The sample set and the two good ones.
  expect(seen.size).toBe(3);
  for (const said of seen.values()) expect(said.size).toBe(1);
  expect(new Set([...seen.values()].flatMap((said) => [...said])).size).toBe(3);
}, 60_000);

test("SIGHUP reloads the directory at once", async () => {
  const issuer = await forTest(startIssuer());
  const settings = { ...serviceSettings(directory, issuer.url), SVC_POLICY_DIR: join(directory, "active") };
  const service = await forTest(startService(directory, settings));
  write("active/default/more.cedar", "permit (");
  service.child.kill("SIGHUP");
  expect(JSON.parse(await service.line("policy set refused"))).toMatchObject({ problem_count: 1 });
  service.child.kill("SIGTERM");
  expect(await service.ended).toEqual({ code: 0, signal: null });
});
