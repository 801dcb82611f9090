/** A client that a public generator makes from the document makes all eight calls. */
import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { installPythonTools, type PythonTools } from "../harness/python.ts";

let gateway: Gateway;
let tools: PythonTools;

beforeAll(async () => {
  [gateway, tools] = await Promise.all([startGateway(), installPythonTools(["openapi-python-client==0.29.1"])]);
}, 300_000);
afterAll(async () => {
  await gateway?.stop();
  await tools?.remove();
});

test("openapi-python-client", async () => {
  await writeFile(join(tools.folder, "config.yaml"), "post_hooks: []\n");
  const document = join(import.meta.dirname, "../../gen/openapi.json");
  // Fails on every warning: each is a part of the document that callers of generated clients would go without.
  const options = ["--output-path", "generated", "--meta", "none", "--config", "config.yaml", "--fail-on-warning"];
  await tools.run("openapi-python-client", ["generate", "--path", document, ...options]);
  await copyFile(join(import.meta.dirname, "openapi-client.py"), join(tools.folder, "calls.py"));
  const env = { SVC_URL: gateway.url, SVC_TOKEN: await gateway.token() };
  expect(JSON.parse(await tools.run("python", ["calls.py"], { env }))).toEqual({
    routes: 8,
    tenant: "tenant-a",
    plaintext_to_platform: false,
    allow: [true, true, true],
    registered: true,
    ingested: true,
  });
});
