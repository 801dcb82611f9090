/** `buf curl` over TLS: the protocol of the connection comes from ALPN, the schema from the image or from the server. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createAuthority } from "../harness/certificates.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { curl } from "./curl.ts";
import { requireTool } from "./tools.ts";

const schema = join(import.meta.dirname, "../../gen/image.binpb");

let folder: string;
let caFile: string;
let gateway: Gateway;
let token: string;

beforeAll(async () => {
  requireTool("openssl");
  folder = await mkdtemp(join(tmpdir(), "svc-buf-"));
  const authority = await createAuthority(folder, "authority");
  const { certFile, keyFile } = await authority.issue("server", "/CN=gateway", "IP:127.0.0.1");
  caFile = authority.certFile;
  gateway = await startGateway({ env: { SVC_TLS_CERT: certFile, SVC_TLS_KEY: keyFile } });
  token = await gateway.token();
});
afterAll(async () => {
  await gateway?.stop();
  await rm(folder, { recursive: true });
});

async function call(protocol: string, rpc: string, data: object, schemaFrom: readonly string[]): Promise<unknown> {
  const args = ["curl", ...schemaFrom, "--protocol", protocol, "--cacert", caFile, "--data", JSON.stringify(data)];
  const bearer = ["--header", `authorization: Bearer ${token}`];
  const env = { ...process.env, XDG_CACHE_HOME: folder };
  const { stdout } = await promisify(execFile)(requireTool("buf"), [...args, ...bearer, `${gateway.url}/${rpc}`], {
    env,
  });
  return JSON.parse(stdout);
}

const whoami = "platform.sdk.v1.DiscoveryService/WhoAmI";
const evidence = "platform.sdk.v1.EvidenceService/RecordEvidence";
const event = {
  eventType: "EVIDENCE_EVENT_TYPE_PROTECT",
  workload: { application: "payroll-export" },
  resource: { kind: "customer-record" },
};

test.each(["grpc", "grpcweb", "connect"])("%s", async (protocol) => {
  expect(await call(protocol, whoami, {}, ["--schema", schema])).toMatchObject({ caller: { tenantId: "tenant-a" } });
  expect(await call(protocol, evidence, event, ["--schema", schema])).toMatchObject({ ingestion: { accepted: true } });
});

test("the server tells the schema itself", async () => {
  expect(await call("grpc", whoami, {}, ["--reflect"])).toMatchObject({ caller: { tenantId: "tenant-a" } });
});

test.each([
  ["--http1.1", "1.1"],
  ["--http2", "2"],
])("curl %s over TLS", async (flag, httpVersion) => {
  const answer = await curl([
    flag,
    "--cacert",
    caFile,
    "--header",
    `authorization: Bearer ${token}`,
    `${gateway.url}/v1/sdk/whoami`,
  ]);
  expect(answer).toMatchObject({ status: 200, httpVersion });
});
