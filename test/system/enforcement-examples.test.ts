/** The examples of local enforcement, with the packages from their archives, against a real service. */
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { startEnforcementStack } from "../harness/enforcement.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { pythonForFile } from "../harness/python.ts";
import { archiveOf } from "./clients-builds.ts";
import { root } from "./clients-deployment.ts";
import { installClient } from "./clients-typescript-archive.ts";

const examples = join(root, "examples/enforcement");
const timeout = 600_000;
const client = defaultClient();
const stack = await forFile(startEnforcementStack({}, [client]));
const node = await installClient(folderForFile("examples"), "express@5.3.0", "fastify@5.12.8");
const packages = ["boto3==1.44.8", "moto[s3]==5.2.5", "fastapi==0.165.0", "python-multipart==0.0.34", "mypy==2.4.1"];
const python = await pythonForFile(archiveOf("python"), ...packages);
const { url, issuer } = stack.stack;
const service = { url, issuer: issuer.url, id: client.clientId, secret: client.clientSecret, scopes: client.scopes };
const env = { SERVICE: JSON.stringify(service), KEY: randomBytes(32).toString("hex") };

/** Uploads, downloads, asks for what is not there, and prints what came of it. */
const driver = `
import { mkdtempSync, readFileSync } from "node:fs";
import { createPlatformClient, clientCredentials, createRestTransport, workloadInterceptors } from "svc-platform-client";
import { createHttpClient } from "svc-platform-client/node";
import { createEnforcer, localKey } from "svc-platform-client/enforce";
const { reports } = await import(process.argv[2]);
const { url: baseUrl, issuer, id: clientId, secret: clientSecret, scopes } = JSON.parse(process.env.SERVICE);
const http = createHttpClient();
const tokens = clientCredentials({ issuer, clientId, clientSecret, scopes, http });
const interceptors = workloadInterceptors({ tokens });
const folder = mkdtempSync("reports-");
const enforcer = createEnforcer({
  client: createPlatformClient(createRestTransport({ baseUrl, http, interceptors })),
  workload: { application: "reports" },
  keys: [localKey("local", Buffer.from(process.env.KEY, "hex"))],
  spoolDirectory: folder + "/spool",
});
const app = reports(enforcer, folder);
await app.ready?.();
const server = app.server ?? (await import("node:http")).createServer(app);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const at = (id) => "http://127.0.0.1:" + server.address().port + "/reports/" + id;
const headers = { "content-type": "application/octet-stream" };
const put = () => fetch(at("7"), { method: "PUT", body: "a report", headers });
const printed = [(await put()).status, readFileSync(folder + "/7").includes("a report"), await (await fetch(at("7"))).text()];
printed.push((await put()).status, (await fetch(at("8"))).status);
console.log(JSON.stringify(printed));
process.exit(0);
`;

test.each(["fastify", "express"])("%s uploads and downloads", { timeout }, async (name) => {
  copyFileSync(join(examples, `${name}.ts`), join(node.folder, `${name}.ts`));
  writeFileSync(join(node.folder, "driver.js"), driver);
  const printed = await node.run(process.execPath, ["driver.js", `./${name}.ts`], env);
  expect(JSON.parse(printed)).toEqual([201, false, "a report", 409, 400]);
});

const pythonDriver = `
import io, json, os, sys, tempfile
from pathlib import Path
from svc_platform_client import ClientCredentials, PlatformClient
from svc_platform_client.enforce import Enforcer, LocalKey
service = json.loads(os.environ["SERVICE"])
folder = Path(tempfile.mkdtemp(dir="."))
tokens = ClientCredentials(service["issuer"], service["id"], service["secret"], service["scopes"])
with PlatformClient(service["url"], tokens=tokens) as client:
    keys = [LocalKey("local", bytes.fromhex(os.environ["KEY"]))]
    enforcer = Enforcer(client, application="reports", keys=keys, spool_directory=folder / "spool")
    if sys.argv[1] == "fastapi":
        from fastapi.testclient import TestClient
        from fastapi_reports import reports
        http = TestClient(reports(enforcer, folder))
        put = lambda: http.put("/reports/7", files={"file": b"a report"}).status_code
        printed = [put(), b"a report" in (folder / "7").read_bytes(), http.get("/reports/7").text, put(), http.get("/reports/8").status_code]
    else:
        import boto3, moto
        from boto3_bucket import SealedBucket
        os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        with moto.mock_aws():
            s3 = boto3.client("s3", region_name="us-east-1")
            s3.create_bucket(Bucket="reports")
            bucket, resource, target = SealedBucket(enforcer, s3, "reports"), {"kind": "report", "id": "7"}, io.BytesIO()
            bucket.put("7", io.BytesIO(b"a report"), resource)
            stored = s3.get_object(Bucket="reports", Key="7")["Body"].read()
            bucket.get("7", target, resource)
            printed = [b"a report" in stored, target.getvalue().decode()]
print(json.dumps(printed))
`;

test.each([
  ["fastapi", [201, false, "a report", 409, 400]],
  ["boto3", [false, "a report"]],
])("%s uploads and downloads, and is typed", { timeout }, async (name, expected) => {
  for (const file of (await readdir(examples)).filter((one) => one.endsWith(".py")))
    copyFileSync(join(examples, file), join(python.folder, file));
  writeFileSync(join(python.folder, "driver.py"), pythonDriver);
  expect(JSON.parse(await python.run("python", ["driver.py", name], { env }))).toEqual(expected);
  const [file = ""] = (await readdir(examples)).filter((one) => one.startsWith(name) && one.endsWith(".py"));
  await python.run("mypy", ["--strict", file]);
});

test("the Python of docs/enforcement.md does what it shows", { timeout }, async () => {
  const page = readFileSync(join(root, "docs/enforcement.md"), "utf8");
  const [, sample = ""] = /^```python\n(.*?)^```/ms.exec(page) ?? [];
  const folder = join(python.folder, "page");
  mkdirSync(folder);
  const keys = { payroll: "local", partner: "local-partner" };
  for (const [name, kid] of Object.entries(keys)) {
    const jwk = { kty: "oct", kid, k: randomBytes(32).toString("base64url") };
    writeFileSync(join(folder, `${name}.key`), JSON.stringify(jwk), { mode: 0o600 });
  }
  writeFileSync(join(folder, "report.pdf"), "a report");
  const program = `
import json, os
from svc_platform_client import ClientCredentials, PlatformClient
os.chdir("page")
service = json.loads(os.environ["SERVICE"])
tokens = ClientCredentials(service["issuer"], service["id"], service["secret"], service["scopes"])
client, log_keys = PlatformClient(service["url"], tokens=tokens), [os.environ["LOG_KEY"]]
${sample}`;
  writeFileSync(join(python.folder, "page.py"), program);
  await python.run("python", ["page.py"], { env: { ...env, LOG_KEY: await stack.logKey() } });
  expect(readFileSync(join(folder, "copy.pdf"), "utf8")).toBe("a report");
});
