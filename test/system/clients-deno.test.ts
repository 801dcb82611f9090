/** The TypeScript package in Deno, from its archive, without a change: calls, local enforcement, and the command line. */
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cases } from "../../clients/conformance/cases/index.ts";
import { runCases } from "../../clients/conformance/suite.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { root, startDeployment } from "./clients-deployment.ts";
import { installClient, readmePrograms } from "./clients-typescript-archive.ts";

const timeout = 300_000;
const permissions = ["--allow-net", "--allow-read", "--allow-env"];
const { platform, arch } = process;
const name = `@deno/${platform}-${arch}${platform === "linux" ? "-glibc" : ""}`;
const folder = folderForFile("clients-deno");
const at = (file: string) => join(folder, file);
const { run } = await installClient(folder, `${name}@2`);
const binary = at(`node_modules/${name}/deno`);
await copyFile(join(root, "clients/typescript/conformance/driver.ts"), at("driver.ts"));
const deployment = await forFile(startDeployment());

const deno = (...args: readonly string[]) =>
  run(binary, ["run", "--quiet", "--no-prompt", ...args], {
    ...deployment.clientEnv(),
    DENO_NO_UPDATE_CHECK: "1",
    PLATFORM_SPOOL: at("spool"),
  });

test("the README's program is answered, over gRPC with a client certificate", { timeout }, async () => {
  const [program = ""] = await readmePrograms();
  await writeFile(at("main.ts"), program);
  const { PLATFORM_SCOPE: _, ...env } = deployment.clientEnv();
  expect(await deno("--no-check", ...permissions, "main.ts", ...Object.values(env))).toBe("payroll-service\n");
});

describe("the conformance suite passes", () => {
  /** Deno's HTTP/2 may break a call off with the connection that ends: the call is sent once more. */
  const besides = ["retries/goaway"];

  test.concurrent.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ["over gRPC", [], besides, []],
    ["over JSON", ["json"], [], ["streams/"]],
  ])("%s", { timeout }, async (_name, args, left, lacks) => {
    const results = await runCases([binary, "run", "--quiet", "--no-check", "--allow-all", at("driver.ts"), ...args], {
      except: lacks,
    });
    expect(results.filter(({ name, problem }) => problem !== undefined && !left.includes(name))).toEqual([]);
    const asked = cases.filter(({ name }) => !lacks.some((part) => name.includes(part)));
    expect(results.length).toBeGreaterThan(asked.length);
  });
});

test("files are protected, opened, signed and verified by the command line", { timeout }, async () => {
  const plaintext = Buffer.from("what no other program reads\n".repeat(200_000));
  await writeFile(at("plain"), plaintext);
  const program = "node_modules/svc-platform-client/dist/clients/typescript/src/enforce/cli.js";
  const svcPlatform = (line: string) => deno("--allow-all", program, ...line.split(" "));
  await svcPlatform("new-key one.key");
  await svcPlatform("protect plain sealed --key-file one.key --resource-kind report");
  await svcPlatform("open sealed opened --key-file one.key");
  expect((await readFile(at("opened"))).equals(plaintext)).toBe(true);
  const profile = "--profile detached_signature";
  await svcPlatform(`new-key signer.key ${profile}`);
  await svcPlatform(`protect plain plain.sig ${profile} --key-file signer.key --resource-kind report`);
  await svcPlatform("open plain checked --signature plain.sig --key-file signer.key");
  expect((await readFile(at("checked"))).equals(plaintext)).toBe(true);
  const logKey = (await deployment.cli("keys", "show", "--tenant", "tenant-a")).trim();
  expect(await svcPlatform(`verify sealed --log-key ${logKey}`)).toMatch(/^sealed: protect under decision /);
  await expect(svcPlatform("open plain never --key-file one.key")).rejects.toMatchObject({ code: 4 });
});
