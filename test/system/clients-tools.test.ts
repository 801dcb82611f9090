/** The tools that people already have: `buf curl`, grpcurl and a gRPC health probe, plaintext and TLS. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { clientCredentials } from "../../clients/typescript/src/index.ts";
import { createHttpClient } from "../../clients/typescript/src/node.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { root, startDeployment } from "./clients-deployment.ts";
import { type Run, startCommand } from "./clients-programs.ts";

/** How the tools reach one of the two gateways. */
interface Target {
  readonly url: string;
  readonly token: string;
  /** PEM files; absent in plaintext. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** What the deployment serves besides. */
const bulkServices = ["Decision", "Record", "Stream"].map((kind) => `platform.bulk.v1.Bulk${kind}Service`);

const [plaintext, deployment] = await Promise.all([gatewayForFile(), forFile(startDeployment())]);
const { ca, client } = deployment.certificates;
const names = ["plaintext", "TLS"] as const;
const targets: Readonly<Record<(typeof names)[number], Target>> = {
  plaintext: { url: plaintext.url, token: await plaintext.token() },
  TLS: { url: deployment.url, token: await boundToken(), tls: { ca, ...client } },
};
const env = { ...process.env, GOBIN: deployment.folder };
execFileSync("go", ["-C", join(root, "test/system/clients-tools"), "install", "tool"], { env });

function boundToken(): Promise<string> {
  const { issuer } = deployment;
  const [registered] = issuer.clients;
  if (registered === undefined) throw new Error("no client");
  const { clientId, clientSecret, scopes } = registered;
  const read = (path: string) => readFileSync(path, "utf8");
  const tls = { ca: read(ca), cert: read(client.cert), key: read(client.key) };
  const http = createHttpClient({ tls });
  return clientCredentials({ issuer: issuer.url, clientId, clientSecret, scopes, http }).token();
}

const planProtection = sampleCalls().find(({ route }) => route === "/v1/sdk/protection-plan");
/** The sample request in canonical protobuf JSON. */
const planJson = JSON.stringify({
  ...planProtection?.body,
  operation: "PROTECTION_OPERATION_PROTECT",
  preferred_artifact_profile: "ARTIFACT_PROFILE_TDF",
});

describe.each(names)("buf curl, %s", (name) => {
  const buf = (rpc: string, data: string, ...options: string[]): Promise<Run> => {
    const { url, token, tls } = targets[name];
    const connection =
      tls === undefined ? ["--http2-prior-knowledge"] : ["--cacert", tls.ca, "--cert", tls.cert, "--key", tls.key];
    const header = ["--header", `authorization: Bearer ${token}`];
    const args = ["curl", ...connection, ...header, ...options, "--data", data, `${url}/platform.sdk.v1.${rpc}`];
    return startCommand([join(root, "node_modules/.bin/buf"), ...args], {}).done;
  };
  const schemas = {
    "a schema": ["--schema", "gen/image.binpb"],
    "reflection v1": ["--reflect-protocol", "grpc-v1"],
    "reflection v1alpha": ["--reflect-protocol", "grpc-v1alpha"],
  };
  const cases = ["grpc", "grpcweb", "connect"].flatMap((protocol) =>
    Object.entries(schemas).map(([schema, options]) => ({ protocol, schema, options })),
  );

  test.each(cases)("calls over $protocol with $schema", async ({ protocol, options }) => {
    const who = await buf("DiscoveryService/WhoAmI", "{}", "--protocol", protocol, ...options);
    expect(who).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(who.stdout)).toMatchObject({ status: "ok", caller: { tenantId: "tenant-a" } });
    const plan = await buf("ProtectionService/PlanProtection", planJson, "--protocol", protocol, ...options);
    expect(plan).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(plan.stdout)).toMatchObject({ decision: { allow: true } });
  });

  test("shows a refusal with its details", async () => {
    const { code, stderr } = await buf("ProtectionService/PlanProtection", "{}", "--protocol", "grpc");
    expect(code).not.toBe(0);
    const error = JSON.parse(stderr);
    expect(error).toMatchObject({ code: "invalid_argument" });
    expect(error.details.map(({ type }: { type: string }) => type)).toEqual([
      "google.rpc.ErrorInfo",
      "google.rpc.BadRequest",
    ]);
    const info = fromBinary(ErrorInfoSchema, Buffer.from(error.details[0].value, "base64"));
    expect(info).toMatchObject({ reason: "invalid_request", domain: "svc-platform-api" });
  });
});

describe.each(names)("grpcurl, %s", (name) => {
  const grpcurl = (options: readonly string[], ...args: string[]): Promise<Run> => {
    // What is left of a deadline when a call leaves is never whole milliseconds.
    const maxTime = options.includes("-max-time") ? [] : ["-max-time", "29.987336"];
    const { url, tls } = targets[name];
    const connection = tls === undefined ? ["-plaintext"] : ["-cacert", tls.ca, "-cert", tls.cert, "-key", tls.key];
    const command = join(deployment.folder, "grpcurl");
    return startCommand([command, ...connection, ...maxTime, ...options, new URL(url).host, ...args], {}).done;
  };

  test("lists the public services", async () => {
    const { code, stdout } = await grpcurl([], "list");
    expect({ code, services: stdout.trim().split("\n") }).toEqual({
      code: 0,
      services: [
        "grpc.health.v1.Health",
        ...(name === "TLS" ? bulkServices : []),
        "platform.sdk.v1.DiscoveryService",
        "platform.sdk.v1.EvidenceService",
        "platform.sdk.v1.ProtectionService",
        "platform.sdk.v1.RegistrationService",
      ],
    });
  });

  test("describes a service, its options and a message", async () => {
    const service = await grpcurl([], "describe", "platform.sdk.v1.EvidenceService");
    expect(service.stdout).toMatch(/rpc RecordEvidence/);
    expect(service.stdout).toMatch(/post: "\/v1\/sdk\/evidence"/);
    const message = await grpcurl([], "describe", "platform.sdk.v1.Caller");
    expect(message.stdout).toMatch(/string tenant_id = 1;/);
    const hidden = await grpcurl([], "describe", "platform.sdk.v1.SessionService");
    expect(hidden.code).not.toBe(0);
  });

  test("calls, and shows the details of a refusal", async () => {
    const { token } = targets[name];
    const authorization = ["-H", `authorization: Bearer ${token}`];
    const rpc = "platform.sdk.v1.ProtectionService/PlanProtection";
    const plan = await grpcurl([...authorization, "-d", planJson], rpc);
    expect(plan).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(plan.stdout)).toMatchObject({ decision: { allow: true } });
    const refused = await grpcurl([...authorization, "-d", "{}"], rpc);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toMatch(/InvalidArgument/);
    expect(refused.stderr).toMatch(/"reason":\s*"invalid_request"/);
    const anonymous = await grpcurl(["-d", planJson], rpc);
    expect(anonymous.stderr).toMatch(/Unauthenticated[\s\S]*missing_token/);
  });

  test("watches the state until its deadline, and shows the states before it", async () => {
    const { code, stdout, stderr } = await grpcurl(["-max-time", "2.000123"], "grpc.health.v1.Health/Watch");
    expect(code).not.toBe(0);
    expect(stdout).toContain("SERVING");
    expect(stderr).toContain("DeadlineExceeded");
  });
});

describe.each(names)("grpc-health-probe, %s", (name) => {
  const probe = (service: string): Promise<Run> => {
    const { url, tls } = targets[name];
    const connection = tls === undefined ? [] : ["-tls", "-tls-ca-cert", tls.ca, "-tls-server-name", "localhost"];
    const command = join(deployment.folder, "grpc-health-probe");
    return startCommand([command, `-addr=${new URL(url).host}`, `-service=${service}`, ...connection], {}).done;
  };

  test.each(["", "platform.sdk.v1.ProtectionService"])("finds %j serving", async (service) => {
    const { code, stderr } = await probe(service);
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringMatching(/SERVING/) });
  });

  test("finds an unknown service not serving", async () => {
    expect((await probe("platform.sdk.v1.SessionService")).code).not.toBe(0);
  });
});
