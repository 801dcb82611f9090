/** Catalog for reflection: services, and the definitions of every name that they refer to. */
import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

export interface CatalogFile {
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
