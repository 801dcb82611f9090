/** Dashboards and alerts, asked of a real Prometheus that has scraped a real gateway under load. */
import { execFile } from "node:child_process";
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { dashboards } from "../../scripts/dashboards.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { createAuthority } from "../harness/certificates.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { freePort } from "../harness/loopback.ts";
import { startProgram } from "../harness/process.ts";
import { startWitness } from "../harness/witness.ts";
import { requireTool } from "./tools.ts";

const rules = join(import.meta.dirname, "../../deploy/monitoring");
const run = promisify(execFile);
const directory = folderForFile("monitoring");
const patience = { timeout: 60_000, interval: 500 };
/** Between rounds of calls: the load is to be there all the time, not to take the machine. */
const pauseMs = 200;

test("the alert rules are valid, and pass their tests", async () => {
  const promtool = requireTool("promtool");
  await run(promtool, ["check", "rules", "alerts.yaml"], { cwd: rules });
  await run(promtool, ["test", "rules", "alerts.test.yaml"], { cwd: rules });
});

describe("a gateway under load", async () => {
  await cp(join(import.meta.dirname, "../../policies"), join(directory, "active"), { recursive: true });
  await writeFile(
    join(directory, "active/default/told.cedar"),
    '@id("told") @alert("told") permit (principal, action == Action::"protect", resource);',
  );
  await writeFile(
    join(directory, "active/default/no.cedar"),
    '@id("no") forbid (principal, action == Action::"access", resource);',
  );
  const ledgerKey = join(directory, "ledger.key");
  const logKeys = () => (readKeyFile(ledgerKey) ?? []).map(({ publicKey }) => publicKey);
  const witness = await forFile(startWitness({ logKeys }));
  const server = await (await createAuthority(directory, "servers")).issue("server", "/CN=gateway", "IP:127.0.0.1");
  const gateway = await gatewayForFile({
    dataDir: directory,
    env: {
      SVC_POLICY_DIR: join(directory, "active"),
      SVC_WITNESSES: witness.setting,
      SVC_OPS_TLS_CERT: server.certFile,
      SVC_OPS_TLS_KEY: server.keyFile,
    },
  });
  const prometheus = await forFile(startPrometheus(gateway.opsUrl));
  let isOver = false;
  const loading = load();
  afterAll(() => {
    isOver = true;
    return loading;
  });

  /** Every route, allowed and denied, and callers who are refused, again and again. */
  async function load(): Promise<void> {
    const token = await gateway.token();
    const object = Buffer.from("an artifact").toString("base64");
    while (!isOver) {
      const calls = sampleCalls().flatMap(({ route, body }) => {
        if (body === undefined) return [call(route, token)];
        const withObject = { ...body, artifact_object_b64: object, artifact_digest: undefined };
        return [
          call(route, token, body),
          ...(route.endsWith("artifact-register") ? [call(route, token, withObject)] : []),
        ];
      });
      await Promise.all([...calls, call("/v1/sdk/whoami", ""), call("/v1/sdk/whoami", "not.a.token")]);
      await delay(pauseMs);
    }
  }

  async function call(route: string, token: string, body?: object): Promise<void> {
    const headers = { "content-type": "application/json", ...(token !== "" && { authorization: `Bearer ${token}` }) };
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    await (await fetch(gateway.url + route, { headers, ...init })).arrayBuffer();
  }

  test("a scrape under load passes promtool", async () => {
    const scrape = await run(requireTool("curl"), ["-ksS", `${gateway.opsUrl}/metrics`], { maxBuffer: 2 ** 24 });
    expect(scrape.stdout).toContain("svc_build_info{");
    const checking = run(requireTool("promtool"), ["check", "metrics"]);
    checking.child.stdin?.end(scrape.stdout);
    expect(await checking).toEqual({ stdout: "", stderr: "" });
  });

  const panels = dashboards.flatMap(({ title, panels }) =>
    panels.flatMap((panel) => panel.queries.map(([expr]) => [title, panel.title, expr] as const)),
  );
  test.each(panels)("%s: %s", { timeout: 90_000 }, async (_dashboard, _panel, expr) => {
    const asked = expr.replaceAll("$__rate_interval", "15s").replaceAll(/"\$\w+"/g, '".+"');
    await expect.poll(() => numbersOf(asked), patience).not.toEqual([]);
  });

  test("only alerts of this load fire, and every rule can be evaluated", async () => {
    const groups = async () => (await ask("/api/v1/rules")).groups as { rules: Rule[] }[];
    const found = async () => (await groups()).flatMap((group) => group.rules);
    await expect
      .poll(async () => new Set((await found()).map(({ health }) => health)), patience)
      .toEqual(new Set(["ok"]));
    const firing = (await found()).filter(({ state }) => state === "firing").map(({ name }) => name);
    // The policy alerts, one principal is denied often, and the certificate of the test is good for a day or so.
    expect(firing).toContain("SvcPolicyAlert");
    expect(firing.filter((name) => !/^Svc(PolicyAlert|DenialsSpiked|CertificateExpires)/.test(name))).toEqual([]);
  });

  interface Rule {
    readonly name: string;
    readonly health: string;
    readonly state: string;
  }

  /** Values that the query has now; what is no number is none. */
  async function numbersOf(query: string): Promise<readonly number[]> {
    const { result } = await ask(`/api/v1/query?query=${encodeURIComponent(query)}`);
    const values = (result as readonly { value: [number, string] }[]).map(({ value }) => Number(value[1]));
    return values.filter(Number.isFinite);
  }

  async function ask(path: string): Promise<Record<string, unknown>> {
    const answer = (await (await fetch(prometheus.url + path)).json()) as {
      data?: Record<string, unknown>;
      error?: string;
    };
    if (answer.data === undefined) throw new Error(`${path}: ${answer.error}`);
    return answer.data;
  }
});

/** Starts one that scrapes the gateway every second. Resolves once it is ready. */
async function startPrometheus(opsUrl: string) {
  const config = {
    global: { scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: [join(rules, "alerts.yaml")],
    scrape_configs: [
      {
        job_name: "svc-platform-api",
        scheme: "https",
        tls_config: { insecure_skip_verify: true },
        static_configs: [{ targets: [new URL(opsUrl).host] }],
      },
    ],
  };
  // JSON is YAML.
  const file = join(directory, "prometheus.yml");
  await writeFile(file, JSON.stringify(config));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const folder = `--storage.tsdb.path=${join(directory, "tsdb")}`;
  const args = [`--config.file=${file}`, folder, `--web.listen-address=127.0.0.1:${port}`];
  const isReady = async () => expect((await fetch(`${url}/-/ready`)).status).toBe(200);
  const { stop } = await startProgram(requireTool("prometheus"), args, isReady);
  return { url, stop };
}
