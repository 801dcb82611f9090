/** Comments of protobuf definitions, from descriptors with source information. */
import type {
  DescriptorProto,
  EnumDescriptorProto,
  FileDescriptorProto,
  FileDescriptorSet,
  ServiceDescriptorProto,
} from "@bufbuild/protobuf/wkt";

/**
 * Leading comments by full name, of everything in the packages with the prefix that has one. Paragraphs are kept, line
 * breaks are not.
 */
export function commentsOf(set: FileDescriptorSet, prefix: string): Record<string, string> {
  const entries = set.file.filter((file) => file.package.startsWith(prefix)).flatMap(commentsOfFile);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function commentsOfFile(file: FileDescriptorProto): [string, string][] {
  const names = namesOfFile(file);
  return (file.sourceCodeInfo?.location ?? []).flatMap(({ path, leadingComments }) => {
    const name = names.get(path.join("."));
    return name === undefined || leadingComments === "" ? [] : [[name, unwrap(leadingComments)] as [string, string]];
  });
}

function unwrap(comment: string): string {
  return comment
    .trim()
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replace(/\s*\n\s*/g, " ").trim())
    .join("\n\n");
}

/** Full names by path. The numbers are field numbers in `google/protobuf/descriptor.proto`. */
function namesOfFile(file: FileDescriptorProto): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const scope = file.package;
  file.messageType.forEach((message, i) => void nameMessage(names, message, `4.${i}`, `${scope}.${message.name}`));
  file.enumType.forEach((enumeration, i) => void nameEnum(names, enumeration, `5.${i}`, scope));
  file.service.forEach((service, i) => void nameService(names, service, `6.${i}`, `${scope}.${service.name}`));
  return names;
}

function nameMessage(names: Map<string, string>, message: DescriptorProto, path: string, fullName: string): void {
  names.set(path, fullName);
  message.field.forEach((field, i) => void names.set(`${path}.2.${i}`, `${fullName}.${field.name}`));
}

/** Values of an enumeration are its siblings, not its children. */
function nameEnum(names: Map<string, string>, enumeration: EnumDescriptorProto, path: string, scope: string): void {
  names.set(path, `${scope}.${enumeration.name}`);
  enumeration.value.forEach((value, i) => void names.set(`${path}.2.${i}`, `${scope}.${value.name}`));
}

function nameService(
  names: Map<string, string>,
  service: ServiceDescriptorProto,
  path: string,
  fullName: string,
): void {
  names.set(path, fullName);
  service.method.forEach((method, i) => void names.set(`${path}.2.${i}`, `${fullName}.${method.name}`));
}
