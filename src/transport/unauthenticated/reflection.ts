/**
 * gRPC server reflection: clients without a schema learn the public services from the service itself. The versions `v1`
 * and `v1alpha` have the same messages under two names, so one implementation serves both.
 */
import { createRegistry, type DescFile, type DescService, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import type {
  ServerReflection,
  ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.ts";
import type { ServerReflection as ServerReflectionAlpha } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.ts";

type Query = ServerReflectionRequest["messageRequest"];
type Response = Exclude<MessageInitShape<typeof ServerReflectionResponseSchema>, { $typeName: string }>;
type Answer = NonNullable<Response["messageResponse"]>;

/** Answers both versions from the catalog, which is loaded for the first question. */
export function createReflectionService(load: () => Catalog) {
  let catalog: Catalog | undefined;
  const v1: ServiceImpl<typeof ServerReflection> = {
    async *serverReflectionInfo(requests) {
      // Sends each file once per conversation: clients keep what they got.
      const sent = new Set<DescFile>();
      for await (const request of requests) {
        catalog ??= load();
        yield {
          validHost: request.host,
          originalRequest: request,
          messageResponse: answer(catalog, request.messageRequest, sent),
        };
      }
    },
  };
  // The definitions differ only in their package name, and the yielded values name no type.
  return { v1, v1alpha: v1 as unknown as ServiceImpl<typeof ServerReflectionAlpha> };
}

function answer(catalog: Catalog, query: Query, sent: Set<DescFile>): Answer {
  const { services, files, symbols, types } = catalog;
  switch (query.case) {
    case "listServices":
      return { case: "listServicesResponse", value: { service: services.map((name) => ({ name })) } };
    case "fileByFilename":
      return filesFrom(
        [...files.keys()].find(({ proto }) => proto.name === query.value),
        catalog,
        sent,
        "file",
      );
    case "fileContainingSymbol":
      return filesFrom(symbols.get(query.value), catalog, sent, "symbol");
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = query.value;
      const message = types.getMessage(containingType);
      return filesFrom(message && types.getExtensionFor(message, extensionNumber)?.file, catalog, sent, "extension");
    }
    case "allExtensionNumbersOfType": {
      const baseTypeName = query.value;
      if (types.getMessage(baseTypeName) === undefined) return refusal(Code.NotFound, "there is no such type");
      const extensionNumber = [...types]
        .flatMap((type) => (type.kind === "extension" && type.extendee.typeName === baseTypeName ? type.number : []))
        .sort((a, b) => a - b);
      return { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } };
    }
    default:
      return refusal(Code.InvalidArgument, "unknown reflection request");
  }
}

/** The file first, then its dependencies that the conversation has not sent yet. */
function filesFrom(file: DescFile | undefined, { files }: Catalog, sent: Set<DescFile>, what: string): Answer {
  if (file === undefined) return refusal(Code.NotFound, `there is no such ${what}`);
  const fresh = [file];
  sent.add(file);
  for (const { dependencies } of fresh) {
    for (const needed of dependencies) {
      if (sent.has(needed)) continue;
      sent.add(needed);
      fresh.push(needed);
    }
  }
  const fileDescriptorProto = fresh.map((each) => files.get(each) as Uint8Array);
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

/** An error within the conversation, which continues. */
function refusal(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

/** Services, and the definitions of every name that they refer to. */
type Catalog = ReturnType<typeof createCatalog>;

/**
 * Reads the catalog once from descriptors: the services, everything that their files import, and the `extra` files with
 * all that those import (such as error details, which are sent as `google.protobuf.Any`).
 */
export function createCatalog(services: readonly DescService[], extra: readonly DescFile[] = []) {
  const files = new Map<DescFile, Uint8Array>();
  const add = (file: DescFile): void => {
    if (files.has(file)) return;
    files.set(file, toBinary(FileDescriptorProtoSchema, file.proto));
    file.dependencies.forEach(add);
  };
  for (const { file } of services) add(file);
  extra.forEach(add);
  return {
    /** Full names of the services. */
    services: services.map(({ typeName }) => typeName).sort(),
    /** Every file, and its serialized `google.protobuf.FileDescriptorProto`. */
    files,
    /** Files by the full names of what they declare, such as messages, fields and methods. */
    symbols: new Map([...files.keys()].flatMap((file) => [...symbolsOf(file)].map((name) => [name, file] as const))),
    types: createRegistry(...files.keys()),
  };
}

/** Full names of everything that a file declares. The values of an enumeration are its siblings, not its children. */
function* symbolsOf(file: DescFile): Generator<string> {
  for (const type of nestedTypes(file)) {
    yield type.typeName;
    if (type.kind === "message") for (const field of type.fields) yield `${type.typeName}.${field.name}`;
    if (type.kind === "service") for (const method of type.methods) yield `${type.typeName}.${method.name}`;
    if (type.kind === "enum") {
      const scope = type.typeName.slice(0, type.typeName.lastIndexOf(".") + 1);
      for (const value of type.values) yield scope + value.name;
    }
  }
}
