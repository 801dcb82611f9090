import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { ServerReflection, type ServerReflectionRequest } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { gatewayForFile, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";

const gateway = await gatewayForFile();

type Query = ServerReflectionRequest["messageRequest"];

/** Asks everything on one stream and returns the answers in order. */
async function ask(service: typeof ServerReflection | typeof ServerReflectionAlpha, ...queries: Query[]) {
  const client = createClient(service as typeof ServerReflection, createGrpcTransport({ baseUrl: gateway.url }));
  const requests = queries.map((messageRequest) => ({ messageRequest: messageRequest as never }));
  const answers = [];
  for await (const { messageResponse } of client.serverReflectionInfo(asyncOf(requests))) answers.push(messageResponse);
  return answers;
}

async function* asyncOf<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

function filesOf(answer: Awaited<ReturnType<typeof ask>>[number] | undefined): FileDescriptorProto[] {
  if (answer?.case !== "fileDescriptorResponse") throw new Error(`no files: ${answer?.case}`);
  return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

/** The same files, each after those that it imports. Throws where one of those is missing. */
function importsFirst(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const sorted = new Set<FileDescriptorProto>();
  const visit = (name: string) => {
    const file = files.find((candidate) => candidate.name === name);
    if (file === undefined) throw new Error(`${name} is missing`);
    file.dependency.forEach(visit);
    sorted.add(file);
  };
  for (const { name } of files) visit(name);
  return [...sorted];
}

describe.each([
  ["v1", ServerReflection],
  ["v1alpha", ServerReflectionAlpha],
] as const)("reflection %s", (_version, service) => {
  test("lists the public services and health, and not the session service", async () => {
    const [answer] = await ask(service, { case: "listServices", value: "" });
    expect(answer?.case === "listServicesResponse" && answer.value.service.map(({ name }) => name)).toEqual([
      "grpc.health.v1.Health",
      "platform.sdk.v1.DiscoveryService",
      "platform.sdk.v1.EvidenceService",
      "platform.sdk.v1.ProtectionService",
      "platform.sdk.v1.RegistrationService",
    ]);
  });

  test("sends self-contained files: every import is included", async () => {
    const [answer] = await ask(service, { case: "fileContainingSymbol", value: "platform.sdk.v1.ProtectionService" });
    const files = filesOf(answer);
    expect(files[0]?.name).toBe("platform/sdk/v1/protection.proto");
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: importsFirst(files) }));
    expect(registry.getService("platform.sdk.v1.ProtectionService")?.methods.length).toBe(3);
  });

  test("sends no file twice in one conversation", async () => {
    const answers = await ask(
      service,
      { case: "fileContainingSymbol", value: "platform.sdk.v1.ProtectionService.PlanProtection" },
      { case: "fileContainingSymbol", value: "platform.sdk.v1.EvidenceService" },
    );
    const names = answers.flatMap((answer) => filesOf(answer).map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain("platform/sdk/v1/evidence.proto");
  });

  test.each([
    ["platform.sdk.v1.Caller", "platform/sdk/v1/common.proto"],
    ["platform.sdk.v1.Caller.tenant_id", "platform/sdk/v1/common.proto"],
    ["platform.sdk.v1.ArtifactProfile", "platform/sdk/v1/common.proto"],
    ["platform.sdk.v1.ARTIFACT_PROFILE_TDF", "platform/sdk/v1/common.proto"],
    ["google.api.http", "google/api/annotations.proto"],
    ["google.rpc.ErrorInfo", "google/rpc/error_details.proto"],
  ])("finds %s", async (value, file) => {
    const [answer] = await ask(service, { case: "fileContainingSymbol", value });
    expect(filesOf(answer)[0]?.name).toBe(file);
  });

  test("finds extensions", async () => {
    const [numbers, found] = await ask(
      service,
      { case: "allExtensionNumbersOfType", value: "google.protobuf.MethodOptions" },
      {
        case: "fileContainingExtension",
        value: {
          $typeName: "grpc.reflection.v1.ExtensionRequest",
          containingType: "google.protobuf.MethodOptions",
          extensionNumber: 72295728,
        },
      },
    );
    expect(numbers).toMatchObject({ value: { extensionNumber: [72295728] } });
    expect(filesOf(found)[0]?.name).toBe("google/api/annotations.proto");
  });

  test.each<[string, Query]>([
    ["a file", { case: "fileByFilename", value: "platform/sdk/v1/session.proto" }],
    ["a service", { case: "fileContainingSymbol", value: "platform.sdk.v1.SessionService" }],
    ["a message", { case: "fileContainingSymbol", value: "platform.sdk.v1.CreateSessionRequest" }],
    ["a type", { case: "allExtensionNumbersOfType", value: "platform.sdk.v1.CreateSessionRequest" }],
  ])("reports %s, which is not public, as unknown, and continues", async (_what, query) => {
    const [refused, answered] = await ask(service, query, { case: "listServices", value: "" });
    expect(refused).toMatchObject({ case: "errorResponse", value: { errorCode: 5 } });
    expect(answered?.case).toBe("listServicesResponse");
  });
});

test("can be switched off, and health stays", async () => {
  const silent = await forTest(startGateway({ env: { SVC_REFLECTION: "off" } }));
  const post = (path: string) => fetch(`${silent.url}/${path}`, { method: "POST" });
  expect((await post("grpc.reflection.v1.ServerReflection/ServerReflectionInfo")).status).toBe(404);
  expect((await post("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")).status).toBe(404);
  expect((await post("grpc.health.v1.Health/Check")).status).toBe(415);
});
