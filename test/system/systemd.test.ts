/** The unit: systemd understands it, finds little that it leaves open, and the service would start with its settings. */
import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { settings } from "../../src/config/settings.ts";
import { folderForFile } from "../harness/folder.ts";
import { startCommand } from "./clients-programs.ts";
import { settingsProblems } from "./deployed-settings.ts";
import { requireTool } from "./tools.ts";

const name = "svc-platform-api.service";
const deployed = join(import.meta.dirname, "../../deploy/systemd");
const folder = folderForFile("systemd");
await cp(deployed, folder, { recursive: true });
const unit = await readFile(join(deployed, name), "utf8");
/** The program is looked for: here it is another Node. */
const runnable = unit.replace("/opt/svc-platform-api/usr/local/bin/node", process.execPath);

async function analyze(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await startCommand([requireTool("systemd-analyze"), "--no-pager", ...args], {}).done;
  expect(code, stderr).toBe(0);
  return stdout + stderr;
}

/** Values of the unit's option, in order. */
const valuesOf = (text: string, option: string) =>
  [...text.matchAll(RegExp(`^${option}=(.*)$`, "gm"))].map(([, value = ""]) => value);

test.each(["alone", "with PostgreSQL"])("systemd-analyze finds no fault in it, %s", async (how) => {
  const path = join(folder, name);
  await writeFile(path, runnable);
  if (how === "alone") await rm(`${path}.d`, { recursive: true });
  else await cp(join(deployed, `${name}.d`), `${path}.d`, { recursive: true });
  expect(await analyze("verify", "--man=no", path)).toBe("");
});

test("a copy of the unit is a template whose instances listen on ports of their own", async () => {
  const template = join(folder, "svc-platform-api@.service");
  await writeFile(template, runnable);
  await cp(join(deployed, "svc-platform-api@.service.d"), `${template}.d`, { recursive: true });
  expect(await analyze("verify", "--man=no", join(folder, "svc-platform-api@8443.service"))).toBe("");
  const dropIn = await readFile(join(`${template}.d`, "instance.conf"), "utf8");
  expect(valuesOf(dropIn, "Environment")).toEqual(["SVC_LISTEN=0.0.0.0:%i", "SVC_OPS_LISTEN=127.0.0.1:1%i"]);
});

test("its exposure is at most 1.5 of 10", async () => {
  const said = await analyze("security", "--offline=true", "--threshold=15", join(deployed, name));
  expect(said).toMatch(/Overall exposure level for svc-platform-api\.service: [01]\.\d/);
});

test("the service starts with the unit's settings", async () => {
  const dropIn = await readFile(join(deployed, `${name}.d/postgresql.conf`), "utf8");
  const text = await readFile(join(deployed, "settings.yaml"), "utf8");
  const credentials = (of: string) =>
    Object.fromEntries(
      valuesOf(of, "Environment").map((value) => value.replace("%d", "/run/credentials").split("=", 2)),
    );
  const files = { fileMode: 0o440 };
  expect(await settingsProblems({ ...files, env: credentials(unit), settings: text })).toEqual([]);
  const shared = text.replace(/^SVC_STORE: .*$/m, "SVC_STORE: postgres://svc@db.example.com/a?sslmode=verify-full");
  expect(await settingsProblems({ ...files, env: credentials(unit + dropIn), settings: shared })).toEqual([]);
});

test("systemd waits longer than running calls may take, and expects no readiness message", () => {
  const [timeout] = valuesOf(unit, "TimeoutStopSec");
  expect(Number(timeout?.replace(/s$/, "")) * 1000).toBeGreaterThan(Number(settings.shutdownGraceMs.default) + 5_000);
  expect(valuesOf(unit, "Type")).toEqual(["exec"]);
  expect(valuesOf(unit, "ExecReload")).toEqual(["/bin/kill -HUP $MAINPID"]);
});
