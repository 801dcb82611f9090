/**
 * gRPC server reflection: clients without a schema learn the public services from the service itself. The versions `v1`
 * and `v1alpha` have the same messages under two names, so one implementation serves both.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import type {
  ServerReflection,
  ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.ts";
import type { ServerReflection as ServerReflectionAlpha } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import type { Catalog, CatalogFile } from "./reflection-catalog.ts";

type Query = ServerReflectionRequest["messageRequest"];
type Response = Exclude<MessageInitShape<typeof ServerReflectionResponseSchema>, { $typeName: string }>;
type Answer = NonNullable<Response["messageResponse"]>;

export interface ReflectionService {
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
