/**
 * gRPC server reflection: clients without a schema learn the public services from the service itself. The versions `v1`
 * and `v1alpha` have the same messages under two names, so one implementation serves both.
 */
import { type DescFile, type DescService, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
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

interface ReflectionService {
  readonly v1: ServiceImpl<typeof ServerReflection>;
  readonly v1alpha: ServiceImpl<typeof ServerReflectionAlpha>;
}

/** Answers both versions from the catalog, which is loaded for the first question. */
export function createReflectionService(catalog: () => Catalog): ReflectionService {
  const v1: ServiceImpl<typeof ServerReflection> = {
    async *serverReflectionInfo(requests) {
      // Sends each file once per conversation: clients keep what they got.
      const sent = new Set<CatalogFile>();
      for await (const request of requests) {
        yield {
          validHost: request.host,
          originalRequest: request,
          messageResponse: answer(catalog(), request.messageRequest, sent),
        };
      }
    },
  };
  // The definitions differ only in their package name, and the yielded values name no type.
  return { v1, v1alpha: v1 as unknown as ServiceImpl<typeof ServerReflectionAlpha> };
}

function answer(catalog: Catalog, query: Query, sent: Set<CatalogFile>): Answer {
  switch (query.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: catalog.services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return files(catalog.file(query.value), sent, "file");
    case "fileContainingSymbol":
      return files(catalog.fileOfSymbol(query.value), sent, "symbol");
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = query.value;
      return files(catalog.fileOfExtension(containingType, extensionNumber), sent, "extension");
    }
    case "allExtensionNumbersOfType": {
      const extensionNumber = catalog.extensionNumbers(query.value);
      if (extensionNumber === undefined) return refusal(Code.NotFound, "there is no such type");
      return {
        case: "allExtensionNumbersResponse",
        value: { baseTypeName: query.value, extensionNumber: [...extensionNumber] },
      };
    }
    default:
      return refusal(Code.InvalidArgument, "unknown reflection request");
  }
}

/** The file first, then its dependencies that the conversation has not sent yet. */
function files(file: CatalogFile | undefined, sent: Set<CatalogFile>, what: string): Answer {
  if (file === undefined) return refusal(Code.NotFound, `there is no such ${what}`);
  const fresh = [file];
  sent.add(file);
  for (const { imports } of fresh) {
    for (const needed of imports) {
      if (sent.has(needed)) continue;
      sent.add(needed);
      fresh.push(needed);
    }
  }
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto: fresh.map(({ bytes }) => bytes) } };
}

/** An error within the conversation, which continues. */
function refusal(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

// Catalog for reflection: services, and the definitions of every name that they refer to.

interface CatalogFile {
  readonly name: string;
  /** Serialized `google.protobuf.FileDescriptorProto`. */
  readonly bytes: Uint8Array;
  readonly imports: readonly CatalogFile[];
}

export interface Catalog {
  /** Full names of the services, sorted. */
  readonly services: readonly string[];
  file(name: string): CatalogFile | undefined;
  /** Returns the file that declares the symbol of this full name, such as a message, field or method. */
  fileOfSymbol(name: string): CatalogFile | undefined;
  fileOfExtension(message: string, number: number): CatalogFile | undefined;
  /** Numbers of the extensions of a message, ascending; undefined if the message is unknown. */
  extensionNumbers(message: string): readonly number[] | undefined;
}

/**
 * Reads the catalog once from descriptors: the services, everything that their files import, and the `extra` files with
 * all that those import (such as error details, which are sent as `google.protobuf.Any`).
 */
export function createCatalog(services: readonly DescService[], extra: readonly DescFile[] = []): Catalog {
  const files = new Map<string, CatalogFile>();
  const symbols = new Map<string, CatalogFile>();
  const extensions = new Map<string, Map<number, CatalogFile>>();
  const messages = new Set<string>();

  const add = (desc: DescFile): CatalogFile => {
    const known = files.get(desc.proto.name);
    if (known !== undefined) return known;
    const imports = desc.dependencies.map(add);
    const file = { name: desc.proto.name, bytes: toBinary(FileDescriptorProtoSchema, desc.proto), imports };
    files.set(file.name, file);
    for (const name of symbolsOf(desc)) symbols.set(name, file);
    for (const type of nestedTypes(desc)) {
      if (type.kind === "message") messages.add(type.typeName);
      if (type.kind !== "extension") continue;
      const ofMessage = extensions.get(type.extendee.typeName) ?? new Map<number, CatalogFile>();
      extensions.set(type.extendee.typeName, ofMessage.set(type.number, file));
    }
    return file;
  };
  for (const { file } of services) add(file);
  for (const file of extra) add(file);

  return {
    services: services.map(({ typeName }) => typeName).sort(),
    file: (name) => files.get(name),
    fileOfSymbol: (name) => symbols.get(name),
    fileOfExtension: (message, number) => extensions.get(message)?.get(number),
    extensionNumbers(message) {
      if (!messages.has(message)) return undefined;
      return [...(extensions.get(message)?.keys() ?? [])].sort((a, b) => a - b);
    },
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
