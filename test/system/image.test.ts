/** The image's file system, as its Containerfile makes it: what is in it, and the service run from it. */
import { spawn } from "node:child_process";
import { chmod, chown, cp, mkdir, open, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { startIssuer } from "../../dev/issuer.ts";
import { fetchToken } from "../../dev/stack.ts";
import { folderForFile } from "../harness/folder.ts";
import { rest } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { runProgram, serviceSettings, watch } from "../harness/process.ts";
import { requireTool } from "./tools.ts";

const root = join(import.meta.dirname, "../..");
const nodePackage = /^pkg:npm\/node-linux-/;
/** User and group of the image: nobody. */
const nobody = 65_534;
const folder = folderForFile("image");
const image = join(folder, "image");
await chmod(folder, 0o755);
await runProgram("npm", ["run", "-s", "image:files", "--", image], { cwd: root });
const entries = await readdir(image, { recursive: true, withFileTypes: true });
const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
const containerfile = await readFile(join(root, "deploy/Containerfile"), "utf8");
const lastStage = containerfile.slice(containerfile.lastIndexOf("\nFROM ") + 1);
/** Of the last stage, by name. */
const instructions = new Map(
  [...lastStage.matchAll(/^([A-Z]+) (.+)$/gm)].map(([, name = "", value = ""]) => [name, value]),
);
const data = join(folder, "data");
await mkdir(data, { mode: 0o700 });
await chown(data, nobody, nobody);
const issuer = await forFile(startIssuer());

/** What a production install has elsewhere, as package URLs. */
async function installForProduction(): Promise<readonly string[]> {
  const elsewhere = join(folder, "installed");
  for (const file of ["package.json", "package-lock.json", "clients/typescript/package.json"]) {
    await cp(join(root, file), join(elsewhere, file));
  }
  const args = ["ci", "--omit=dev", "--workspaces=false", "--no-audit", "--no-fund"];
  await runProgram("npm", args, { cwd: elsewhere });
  const { packages } = JSON.parse(await readFile(join(elsewhere, "node_modules/.package-lock.json"), "utf8"));
  // npm installs a compiler that a package names as an optional peer; the program does not need it.
  const compiler = /^node_modules\/(?:@typescript\/)?typescript/;
  const installed = Object.entries(packages as Readonly<Record<string, { version: string }>>);
  const needed = installed.filter(([path]) => !compiler.test(path));
  const urls = needed.map(([path, { version }]) => {
    const name = path.slice(path.lastIndexOf("node_modules/") + 13);
    return `pkg:npm/${name.replace("@", "%40")}@${version}`;
  });
  return [...new Set(urls)].toSorted();
}

describe("the image", () => {
  test("contains no program but Node", async () => {
    const programs: string[] = [];
    for (const path of files) {
      const file = await open(path);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
      await file.close();
      if (bytesRead === 4 && buffer.toString("latin1") === "\x7fELF") programs.push(path.slice(image.length));
    }
    const others = programs.filter((path) => !/\/(?:ld-linux-[\w-]+|lib[\w+]+)\.so\.\d+$/.test(path));
    expect(others).toEqual(["/usr/local/bin/node"]);
    expect(programs.length).toBeGreaterThan(4);
  });

  test("has no file that other users may write, and no link that leads elsewhere", async () => {
    for (const entry of entries) {
      expect(entry.isFile() || entry.isDirectory()).toBe(true);
      const { mode } = await stat(join(entry.parentPath, entry.name));
      expect([entry.name, mode & 0o6022]).toEqual([entry.name, 0]);
    }
  });

  test("contains the packages of a production install, each in the bill of materials with its hash, and libraries", {
    timeout: 300_000,
  }, async () => {
    const bom = JSON.parse(await readFile(join(image, "app/sbom.cdx.json"), "utf8"));
    expect(bom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.5" });
    interface Component {
      readonly purl: string;
      readonly hashes?: readonly object[];
      readonly components?: readonly Component[];
    }
    const components: readonly Component[] = bom.components;
    for (const component of components)
      for (const { hashes } of component.components ?? [component]) expect(hashes).toHaveLength(1);
    const listed = components.map(({ purl }) => purl);
    const installed = await installForProduction();
    const isNpm = (purl: string) => purl.startsWith("pkg:npm/");
    expect(listed.filter(isNpm).toSorted()).toEqual(installed);
    const debian = listed.filter((purl) => !isNpm(purl)).join("\n");
    for (const name of ["libc6", "libstdc%2B%2B6", "libgcc-s1"]) expect(debian).toContain(`pkg:deb/debian/${name}@`);
    // A package is there whole, or it is bundled, and its notices are.
    const manifests = files.filter((path) =>
      /\/(?:node_modules|licenses)\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path),
    );
    const copied = await Promise.all(
      manifests.map(async (path) => {
        const { name, version } = JSON.parse(await readFile(path, "utf8"));
        return `pkg:npm/${name.replace("@", "%40")}@${version}`;
      }),
    );
    // Node is not where npm put it.
    expect([...new Set(copied)].toSorted()).toEqual(
      listed.filter((purl) => isNpm(purl) && !nodePackage.test(purl)).toSorted(),
    );
  });

  test("is built from a Containerfile without a named base, root, shell or health check", () => {
    expect([...containerfile.matchAll(/^FROM (.*)$/gm)].map(([, from]) => from)).toEqual([
      `\${BUILD_IMAGE} AS build`,
      "scratch",
    ]);
    expect(containerfile).toMatch(/^ARG BUILD_IMAGE$/m);
    expect(containerfile).not.toMatch(/^(?:HEALTHCHECK|SHELL)|^(?:RUN|CMD|ENTRYPOINT) [^[]/m);
    expect(instructions.get("USER")).toBe("65534:65534");
  });
});

describe("from the image, read-only and as nobody,", () => {
  test("the service starts, decides, and stops on a signal", async () => {
    const service = runInImage(JSON.parse(instructions.get("ENTRYPOINT") ?? ""), {
      ...serviceSettings("/data", issuer.url),
      SVC_POLICY_DIR: "/run",
    });
    const { url, ops_url: opsUrl, pid } = JSON.parse(await service.line('"message":"listening"'));
    expect(pid).toBe(1);
    for (const probe of ["livez", "readyz"])
      await expect.poll(async () => (await fetch(`${opsUrl}/${probe}`)).status, { timeout: 20_000 }).toBe(200);
    const { status, body } = await rest(`${url}/v1/sdk/protection-plan`, {
      token: await fetchToken(issuer),
      body: {
        operation: "protect",
        workload: { application: "payroll-export", environment: "production" },
        resource: { kind: "customer-record" },
      },
    });
    expect([status, body.decision?.decision_id]).toEqual([200, expect.any(String)]);
    await service.signal("SIGTERM");
    expect([await service.ended, service.errors()]).toEqual([{ code: 0, signal: null }, ""]);
    const { uid, mode } = await stat(join(data, "platform.db"));
    expect([uid, mode & 0o777]).toEqual([nobody, 0o600]);
  });

  test("only the data folder is writable, and no shell exists", async () => {
    const attempt = `
      const { readdirSync, writeFileSync, appendFileSync } = require("node:fs");
      const { spawnSync } = require("node:child_process");
      const written = [];
      const visit = (folder) => {
        try { writeFileSync(folder + "/written", ""); written.push(folder); } catch {}
        for (const entry of readdirSync(folder, { withFileTypes: true })) {
          const path = (folder === "/" ? "" : folder) + "/" + entry.name;
          if (entry.isDirectory() && path !== "/proc" && path !== "/dev") visit(path);
          else if (entry.isFile()) try { appendFileSync(path, ""); written.push(path); } catch {}
        }
      };
      visit("/");
      const shells = ["sh", "/bin/sh", "bash", "busybox"].filter((name) => !spawnSync(name).error);
      console.log(JSON.stringify({ uid: process.getuid(), gid: process.getgid(), shells, outside: written.filter((path) => !path.startsWith("/data")), inside: written.includes("/data") }));
    `;
    const trying = runInImage(["/usr/local/bin/node", "-e", attempt]);
    expect([(await trying.ended).code, trying.errors()]).toEqual([0, ""]);
    expect(JSON.parse(trying.lines[0] ?? "")).toEqual({
      uid: nobody,
      gid: nobody,
      shells: [],
      outside: [],
      inside: true,
    });
  });

  test("the commands run too, including the migration of a deployment", async () => {
    const command = ["/usr/local/bin/node", "/app/cli.js", "migrate", "--json"];
    const migrating = runInImage(command, { SVC_STORE: "sqlite:/data/migrated.db" });
    expect((await migrating.ended).code).toBe(0);
    expect(JSON.parse(migrating.lines.join(""))).toMatchObject({ ok: true });
  });
});

/**
 * Runs a program of the image's file system as a container runtime would: read-only, as nobody, in namespaces of its own
 * but for the network, without capabilities, and without any environment but this. The folder `data` is owned by nobody.
 */
function runInImage(command: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const asNobody = [`--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups", "--no-new-privs"];
  const mounts = ["--ro-bind", image, "/", "--bind", data, "/data", "--ro-bind", join(root, "policies"), "/run"];
  const system = ["--proc", "/proc", "--dev", "/dev"];
  const apart = ["--unshare-all", "--share-net", "--cap-drop", "ALL", "--die-with-parent", "--as-pid-1"];
  const environment = ["--clearenv", ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value])];
  const options = [...mounts, ...system, ...apart, ...environment, "--chdir", "/app", "--info-fd", "3"];
  const child = spawn("setpriv", [...asNobody, requireTool("bwrap"), ...options, ...command], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const info = text(child.stdio[3] as Readable);
  return {
    ...watch(child as Parameters<typeof watch>[0]),
    /** Signals the program itself, which is process 1 of its namespace. */
    async signal(name: NodeJS.Signals) {
      process.kill((JSON.parse(await info) as { "child-pid": number })["child-pid"], name);
    },
  };
}
