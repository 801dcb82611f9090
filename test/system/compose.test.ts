/** The compose file, as its own loader reads it, and what it mounts. */
import { existsSync } from "node:fs";
import { chown, cp, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { runProgram } from "../harness/process.ts";
import { settingsProblems } from "./deployed-settings.ts";
import { requireTool } from "./tools.ts";

const root = join(import.meta.dirname, "../..");
const loader = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2";
/** What a new user has of the repository. */
const folder = folderForFile("compose");
const compose = join(folder, "deploy/compose");
const nobody = { uid: 65_534, gid: 65_534 };
const prepare = () =>
  runProgram("bash", [join(compose, "prepare.sh")], { ...nobody, env: { PATH: process.env.PATH ?? "", HOME: folder } });

await mkdir(compose, { recursive: true });
for (const path of ["deploy/compose", "examples", "policies", "package.json", "src", "gen"])
  await cp(join(root, path), join(folder, path), { recursive: true });
await symlink(join(root, "node_modules"), join(folder, "node_modules"));
await runProgram("chown", ["-R", `${nobody.uid}:${nobody.gid}`, folder]);
await chown(folder, nobody.uid, nobody.gid);
await prepare();
const text = await readFile(join(compose, "compose.yaml"), "utf8");
const environment = parseEnv(await readFile(join(compose, ".env"), "utf8"));
// The loader's program does not look at the environment: its own engines do.
const interpolated = text.replaceAll(
  /\$\{(\w+):\?[^}]+\}/g,
  (_all, name: string) => environment[name] || `registry.example.com/${name.toLowerCase()}@sha256:${"0".repeat(64)}`,
);
await writeFile(join(compose, "interpolated.yaml"), interpolated);
const model = await runProgram("go", ["run", loader, "--format", "json", "interpolated.yaml"], { cwd: compose });
// biome-ignore lint/suspicious/noExplicitAny: the loader's model of a project has many shapes.
const { services }: { readonly services: Record<string, any> } = JSON.parse(model);

test("no image has a default, or a mutable tag", async () => {
  const images = [...text.matchAll(/^ +image: (.*)$/gm)].map(([, image = ""]) => image);
  expect(images).toHaveLength(7);
  const variables = parseEnv(await readFile(join(root, "deploy/compose/.env.example"), "utf8"));
  for (const image of images) {
    const [, name = ""] = /^\$\{(\w+_IMAGE):\?[^}]+\}$/.exec(image) ?? [];
    expect([image, variables[name]]).toEqual([image, ""]);
  }
});

test("mounted files exist, and secrets are readable by their owner only", async () => {
  const sources = Object.values(services)
    .flatMap(({ volumes = [] }) => volumes)
    .filter(({ type }) => type === "bind")
    .map(({ source }) => source as string);
  expect(sources.length).toBeGreaterThan(20);
  // Monitoring may be given or not: an engine makes an empty folder.
  for (const source of sources.filter((path) => !path.endsWith("/monitoring")))
    expect([source, existsSync(source)]).toEqual([source, true]);
  for (const source of sources.filter((path) => path.includes("/files/"))) {
    const { mode, uid } = await stat(source);
    expect([source, mode & 0o777, uid]).toEqual([source, 0o600, nobody.uid]);
  }
});

test("prepare.sh keeps existing files", async () => {
  const before = await readFile(join(compose, "files/ledger.key"), "utf8");
  const environment = await readFile(join(compose, ".env"), "utf8");
  await prepare();
  expect(await readFile(join(compose, "files/ledger.key"), "utf8")).toBe(before);
  expect(await readFile(join(compose, ".env"), "utf8")).toBe(environment);
});

test("the gateways start with their settings, and fit their containers", async () => {
  for (const name of ["gateway-1", "gateway-2"]) {
    const { environment, read_only, user, cap_drop } = services[name];
    expect(await settingsProblems({ env: environment, fileMode: 0o600 })).toEqual([]);
    expect({ read_only, user, cap_drop }).toEqual({ read_only: true, user: "65534:65534", cap_drop: ["ALL"] });
  }
  expect(services["gateway-1"].environment.SVC_TRUSTED_PROXIES).toBe(services.nginx.networks.inside.ipv4_address);
});

test("nginx accepts its configuration, and proxies as the tested example does", async () => {
  const conf = await readFile(join(compose, "nginx.conf"), "utf8");
  const example = await readFile(join(root, "examples/ingress/nginx.conf"), "utf8");
  const locations = (text: string) => text.slice(text.indexOf("location /v1/sdk/"));
  expect(locations(conf)).toBe(locations(example));
  const ingress = join(folder, "nginx");
  await cp(join(root, "examples/ingress"), ingress, { recursive: true });
  await mkdir(join(ingress, "tls"));
  for (const name of ["server.crt.pem", "server.key.pem"])
    await cp(join(compose, "files", name), join(ingress, "tls", name));
  await cp(join(compose, "files/ca.crt.pem"), join(ingress, "tls/client-ca.crt.pem"));
  await writeFile(
    join(ingress, "nginx.conf"),
    conf.replaceAll(/gateway-\d:8080/g, "127.0.0.1:8080").replaceAll("/tmp/", `${ingress}/`),
  );
  await runProgram(requireTool("nginx"), ["-t", "-p", ingress, "-c", "nginx.conf"]);
});
