import { spawn } from "node:child_process";
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { watch } from "../../harness/process.ts";
import { directory, eachInDirectory, refused, run } from "./surroundings.ts";

const samplePolicies = join(import.meta.dirname, "../../../policies");
eachInDirectory();

const runJson = async (...commandLine: string[]) => {
  const { out, err, code } = await run(...commandLine, "--json");
  expect(err).toBe("");
  return { ...(JSON.parse(out) as Record<string, unknown>), code };
};

/** A copy of the sample policies, changed by the function. */
function policies(file: string, change: (text: string) => string): string {
  const copy = join(directory, "policies");
  cpSync(samplePolicies, copy, { recursive: true });
  writeFileSync(join(copy, file), change(readFileSync(join(copy, file), "utf8")));
  return copy;
}

describe("the command line", () => {
  test("prints help, and exits with 0", async () => {
    expect(await run("policy", "test", "--help")).toMatchObject({ code: 0, out: expect.stringContaining("--junit") });
  });

  test("prints the version of the package", async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../../package.json"), "utf8"));
    for (const option of ["--version", "-V"])
      expect(await run(option)).toEqual({ out: `${version}\n`, err: "", code: 0 });
  });

  test("a reader that closes its pipe is no failure of the command", async () => {
    const program = join(import.meta.dirname, "../../../src/cli/cli.ts");
    const child = spawn(process.execPath, [program, "policy", "explain", "--help"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { ended, errors } = watch(child);
    child.stdout.destroy();
    expect([await ended, errors()]).toEqual([{ code: 0, signal: null }, ""]);
  });

  test.each([
    [["ledger", "erase", "--tenant", "a", "--resource", "one", "--resource", "two"], "--resource <id>"],
    [["ledger", "search", "--tenant", "a", "--tenant", "b"], "--tenant <tenant>"],
    [["policy", "explain", "policies", "--action", "access", "--action", "protect"], "--action <action>"],
    [["serve", "--config", "a", "--config", "b"], "--config <file>"],
  ])("%j: a single-value option given twice is refused", async (commandLine, flags) => {
    const { out, err, code } = await run(...commandLine);
    expect(out).toBe("");
    expect(err).toContain(`option '${flags}' is given twice`);
    expect(code).toBe(1);
  });

  test.each([[["sevre"]], [["serve", "--port", "1"]], [["policy"]], [["policy", "check", "a", "b"]]])(
    "%j is refused",
    async (commandLine) => {
      const { out, err, code } = await run(...commandLine);
      expect(out).toBe("");
      expect(err).not.toBe("");
      expect(code).toBe(1);
    },
  );
});

describe("serve", () => {
  test("does not start if settings are missing, and names them all", async () => {
    const { err, out, code } = await run("serve");
    expect(code).toBe(1);
    expect(out).toBe("");
    for (const name of ["SVC_OIDC_ISSUER", "SVC_POLICY_DIR", "SVC_LEDGER_ORIGIN"]) {
      expect(err).toContain(`${name}: is required
`);
    }
  });

  test("reads the named settings file", async () => {
    const file = join(directory, "settings.yaml");
    writeFileSync(file, "SVC_LISTEN: nowhere\n");
    expect((await run("serve", "--config", file)).err).toContain("SVC_LISTEN: must be host:port");
    expect(await runJson("serve", "--config", join(directory, "none"))).toEqual({
      ok: false,
      problems: [`--config: ${join(directory, "none")} cannot be read (ENOENT)`],
      code: 1,
    });
  });
});

describe("migrate", () => {
  test("creates the store, and then has nothing to do", async () => {
    const path = join(directory, "data", "a.db");
    vi.stubEnv("SVC_STORE", `sqlite:${path}`);
    // Wrong settings of other commands do not matter here.
    vi.stubEnv("SVC_LISTEN", "nowhere");
    const first = await runJson("migrate");
    expect(first).toMatchObject({ ok: true, store: "sqlite", schema_version: expect.any(Number), code: 0 });
    expect(first).not.toHaveProperty("applied", []);
    expect(readFileSync(path).subarray(0, 15).toString()).toBe("SQLite format 3");
    const second = await run("migrate");
    expect(second).toMatchObject({ code: 0, out: expect.stringMatching(/^schema version \d+: nothing to do\n$/) });
  });

  test("does not distribute an embedded store, and does not create it either", async () => {
    const path = join(directory, "data", "spread.db");
    vi.stubEnv("SVC_STORE", `sqlite:${path}`);
    await refused(run("migrate", "--distributed"), /^SVC_STORE: --distributed needs a database/);
    expect(existsSync(path)).toBe(false);
  });
});

describe("policy init", () => {
  test("writes a directory that passes its check and its tests", async () => {
    const begun = join(directory, "begun");
    expect(await runJson("policy", "init", begun)).toMatchObject({
      ok: true,
      files: expect.arrayContaining(["manifest.yaml", "schema.cedarschema"]),
    });
    expect(await runJson("policy", "check", begun, "--strict")).toMatchObject({ ok: true, policies: 3 });
    expect(await runJson("policy", "test", begun, "--strict")).toMatchObject({ ok: true, passed: 2, failed: 0 });
  });

  test("writes nothing into a directory that has files", async () => {
    writeFileSync(join(directory, "mine"), "");
    await refused(run("policy", "init", directory), `${directory}: is not empty; nothing was written\n`);
    expect(existsSync(join(directory, "manifest.yaml"))).toBe(false);
  });
});

describe("policy test", () => {
  test("passes the sample set, and every policy of it decides a test", async () => {
    const junit = join(directory, "results.xml");
    const result = await runJson("policy", "test", samplePolicies, "--strict", "--junit", junit);
    expect(result).toMatchObject({ ok: true, failed: 0, unexercised: [], code: 0 });
    expect(readFileSync(junit, "utf8")).toMatch(/<testsuites tests="\d+" failures="0">/);
  });

  test("fails if one decision is not as expected, says which, and explains it", async () => {
    const copy = policies("tests/default.yaml", (text) => text.replace("allow: true", "allow: false"));
    const junit = join(directory, "results.xml");
    const { out, err, code } = await run("policy", "test", copy, "--junit", junit);
    expect(code).toBe(1);
    expect(out).toMatch(/^FAILED .*\n {7}allow: expected false, got true\n( {7}.*\n)* {7}because of: .*\n/m);
    // Of the other decisions nothing more is said.
    expect(out.match(/because of:/g)).toHaveLength(1);
    expect(out).toMatch(/1 failed/);
    expect(err).toMatch(/^tests\/default\.yaml:\d+: .*allow: expected false, got true/);
    expect(readFileSync(junit, "utf8")).toMatch(
      /failures="1"[\s\S]*<failure message="allow: expected false, got true">/,
    );
  });

  test("says that --junit cannot be written, beside the results", async () => {
    const junit = join(directory, "none", "results.xml");
    const { out, err, code } = await run("policy", "test", samplePolicies, "--junit", junit);
    expect({ out, code }).toEqual({ out: expect.stringMatching(/ passed, 0 failed, /), code: 1 });
    expect(err).toMatch(/^--junit: ENOENT.*\n$/);
  });

  test("--filter runs the tests whose names contain the text, and reports no policy as untested", async () => {
    const { out, code } = await run("policy", "test", samplePolicies, "--strict", "--filter", "do-not-export denies");
    expect({ out, code }).toEqual({ out: "ok     do-not-export denies\n1 passed, 0 failed\n", code: 0 });
    await refused(
      run("policy", "test", samplePolicies, "--filter", "no such name"),
      "--filter: no test's name contains no such name\n",
    );
  });

  test("--watch runs the tests again after a change, until interrupted", async () => {
    const copy = policies("tests/default.yaml", (text) => text);
    const program = join(import.meta.dirname, "../../../src/cli/cli.ts");
    const child = spawn(process.execPath, [program, "policy", "test", copy, "--watch"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { line, ended, stop } = watch(child);
    onTestFinished(async () => void (await stop()));
    await line(" 0 failed, ");
    const file = join(copy, "tests/default.yaml");
    writeFileSync(file, readFileSync(file, "utf8").replace("allow: true", "allow: false"));
    await line(" 1 failed, ");
    child.kill("SIGINT");
    expect((await ended).signal).toBe("SIGINT");
  });

  test("fails if nothing is tested", async () => {
    const copy = policies("tests/default.yaml", (text) => text);
    rmSync(join(copy, "tests"), { recursive: true });
    await refused(run("policy", "test", copy), "no expected decisions");
  });

  test("an untested policy fails with --strict only", async () => {
    const never = 'context.claimed has purpose && context.claimed.purpose == "never"';
    const untested = `\n@id("untested")\nforbid(principal, action, resource) when { ${never} };\n`;
    const copy = policies("platform/operations.cedar", (text) => text + untested);
    const lenient = await run("policy", "test", copy);
    expect(lenient).toMatchObject({ code: 0, out: expect.stringContaining("policy untested") });
    await refused(run("policy", "test", copy, "--strict"), "untested decides no test");
  });
});
