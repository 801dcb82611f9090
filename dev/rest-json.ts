/**
 * The spelling of the JSON routes, for protobuf-es: snake_case member names, and lowercase enumeration values without
 * their prefix. Both are options of a descriptor, so a second registry is made of the same descriptors with these options
 * set. For the clients of demonstration and bench, the OpenAPI documents, and tests that compare with the service's codecs.
 */
import {
  clone,
  create,
  createFileRegistry,
  type DescFile,
  type DescMessage,
  type FileRegistry,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  EnumValueOptionsSchema,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";

/** `extend google.protobuf.EnumValueOptions { JsonEnumValueOptions json = 998; }`, as protobuf-es reads it. */
const enumValueJsonOption = 998;

export interface RestRegistry {
  message(desc: DescMessage): DescMessage;
}

/** Creates the registry for the messages of these files. Their imports stay unchanged. */
export function createRestRegistry(files: readonly DescFile[]): RestRegistry {
  const respelled = new Map(files.map((file) => [file.proto.name, respell(file.proto)]));
  const built = new Map<string, DescFile>();
  const build = (file: DescFile): DescFile => {
    const name = file.proto.name;
    const known = built.get(name);
    if (known !== undefined) return known;
    const proto = respelled.get(name);
    const dependencies = new Map(file.dependencies.map((dependency) => [dependency.proto.name, build(dependency)]));
    const result =
      proto === undefined
        ? file
        : fileOf(
            createFileRegistry(proto, (path) => dependencies.get(path)),
            name,
          );
    built.set(name, result);
    return result;
  };
  const messages = new Map<string, DescMessage>();
  for (const file of files) for (const message of build(file).messages) messages.set(message.typeName, message);
  return {
    message(desc) {
      const found = messages.get(desc.typeName);
      if (found === undefined) throw new Error(`${desc.typeName} is not served on the JSON routes`);
      return found;
    },
  };
}

function fileOf(registry: FileRegistry, name: string): DescFile {
  for (const file of registry.files) if (file.proto.name === name) return file;
  throw new Error(`${name} is not in its own registry`);
}

function respell(original: FileDescriptorProto): FileDescriptorProto {
  const file = clone(FileDescriptorProtoSchema, original);
  for (const message of file.messageType) respellMessage(message);
  for (const enumeration of file.enumType) respellEnum(enumeration);
  return file;
}

function respellMessage(message: DescriptorProto): void {
  for (const field of message.field) field.jsonName = field.name;
  for (const nested of message.nestedType) respellMessage(nested);
  for (const enumeration of message.enumType) respellEnum(enumeration);
}

function respellEnum(enumeration: EnumDescriptorProto): void {
  for (const value of enumeration.value) {
    // The unspecified value reads as the empty string, which means an absent option, and is never written.
    const spelled = value.number === 0 ? "" : shortName(enumeration.name, value.name);
    const name = new BinaryWriter().tag(1, WireType.LengthDelimited).string(spelled).finish();
    value.options ??= create(EnumValueOptionsSchema);
    value.options.$unknown = [
      ...(value.options.$unknown ?? []),
      {
        no: enumValueJsonOption,
        wireType: WireType.LengthDelimited,
        data: new BinaryWriter().bytes(name).finish(),
      },
    ];
  }
}

/** `("ArtifactProfile", "ARTIFACT_PROFILE_TDF")` is `tdf`. */
function shortName(enumName: string, valueName: string): string {
  const prefix = `${enumName.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toUpperCase()}_`;
  return (valueName.startsWith(prefix) ? valueName.slice(prefix.length) : valueName).toLowerCase();
}

/**
 * Returns the encoder of messages in the spelling of the JSON routes: every member that is not optional is present, and
 * 64-bit integers are numbers.
 *
 * @param desc descriptor from the registry of the JSON routes
 */
export function messageEncoder(desc: DescMessage): (message: Message) => string {
  const long = longFields(desc);
  return (message) => {
    const json = toJson(desc, message, { alwaysEmitImplicit: true }) as JsonObject;
    for (const path of long) toNumber(json, path);
    return JSON.stringify(json);
  };
}

/** Paths of the 64-bit integers in a message type. */
function longFields(desc: DescMessage, path: readonly string[] = []): string[][] {
  return desc.fields.flatMap((field) => {
    const here = [...path, field.name];
    if (field.fieldKind === "message" || (field.fieldKind === "list" && field.listKind === "message"))
      return longFields(field.message, here);
    if (field.fieldKind === "scalar" && field.scalar === ScalarType.INT64) return [here];
    return [];
  });
}

function toNumber(json: JsonValue | undefined, [member, ...rest]: readonly string[]): void {
  if (Array.isArray(json)) {
    for (const item of json) toNumber(item, [member as string, ...rest]);
  } else if (typeof json === "object" && json !== null && member !== undefined) {
    const value = json[member];
    if (rest.length > 0) toNumber(value, rest);
    else if (typeof value === "string") json[member] = Number(value);
  }
}
