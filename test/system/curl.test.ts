/** The JSON routes as a person at a shell meets them: curl over HTTP/1.1 and over HTTP/2 with prior knowledge. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { runProgram } from "../harness/process.ts";
import { platformEnv, root } from "./clients-deployment.ts";
import { startCommand } from "./clients-programs.ts";
import { requireTool } from "./tools.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();
const bearer = ["--header", `authorization: Bearer ${token}`];

/** Status and version of HTTP. Rejects if there is no answer, or none in JSON. */
async function curl(...args: readonly string[]) {
  const own = ["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code} %{http_version}"];
  const [body = "", how = ""] = (await runProgram(requireTool("curl"), [...own, ...args])).split("\n");
  JSON.parse(body);
  return how;
}

describe.each([
  ["--http1.1", "1.1"],
  ["--http2-prior-knowledge", "2"],
])("curl %s", (flag, version) => {
  test.each(sampleCalls())("is answered on $route", async ({ route, body }) => {
    const data = body && ["--header", "content-type: application/json", "--data", JSON.stringify(body)];
    expect(await curl(flag, ...bearer, ...(data ?? []), gateway.url + route)).toBe(`200 ${version}`);
  });

  // Refused on its headers: curl may have to read the answer while it is about to send the body.
  test.each([
    [401, []],
    [415, [...bearer, "--header", "content-type: text/plain"]],
  ])("gets an answer of %i to a call that has a body to send, every time", async (status, headers) => {
    const url = `${gateway.url}/v1/sdk/protection-plan`;
    for (let i = 0; i < 25; i++) expect(await curl(flag, ...headers, "--data", "{}", url)).toBe(`${status} ${version}`);
  });
});

test("the shell program makes all eight calls without TLS, as the development stack does", async () => {
  const env = platformEnv(gateway);
  const { stdout, stderr } = await startCommand([join(root, "examples/clients/shell/main.sh")], env).done;
  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n")).toHaveLength(8);
});

test("the calls of the README, pasted, are answered", async () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const [text = "", ...others] = [...readme.matchAll(/^```sh\n(BASE=.*?)^```/gms)].map(([, block = ""]) => block);
  expect(others).toEqual([]);
  const env = { ...process.env, BASE: gateway.url, TOKEN: token };
  const stdout = await runProgram("sh", ["-euc", text], { env });
  const [whoami, plan] = stdout.split(/(?<=\})(?=\{"service")/).map((answer) => JSON.parse(answer));
  expect(whoami).toMatchObject({ status: "ok", caller: { tenant_id: "tenant-a" } });
  expect(plan).toMatchObject({ status: "ready", decision: { allow: true } });
});
