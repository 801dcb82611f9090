/**
 * Converts a validated request message to the form that is evaluated and recorded: proto field names (snake_case),
 * enumeration values as lowercase words without their prefix, 64-bit integers as numbers, members without a value left
 * out, lists and maps always present except for later additions (`leftOutEmpty`). The form does not depend on the
 * protocol, so neither does its canonical JSON. Members are in the order of canonical JSON, which makes writing it
 * cheap.
 */

import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import type { JsonObject, JsonValue, SnakeCase } from "../../base/json.ts";
import { rememberedBy } from "../../base/remembered.ts";

type FieldName<M> = Exclude<keyof M, `$${string}`>;

/** Type of a converted value. The words of enumerations are compared at start-up. */
type NormalValue<Value> = [Value] extends [bigint]
  ? number
  : [Value] extends [number]
    ? number extends Value
      ? number
      : string
    : Value extends readonly (infer Item)[]
      ? readonly Item[]
      : Value;

type Alike<Value, Normal> = [Value] extends [Message]
  ? [Differences<Value, Normal>] extends [never]
    ? true
    : false
  : [Normal] extends [NormalValue<Value>]
    ? true
    : false;

/** Fields without a member of their name and type, and members without a field. */
type Differences<M, Form> =
  | {
      [Name in FieldName<M>]: SnakeCase<Name> extends keyof Form
        ? Alike<NonNullable<M[Name]>, NonNullable<Form[SnakeCase<Name>]>> extends true
          ? never
          : SnakeCase<Name>
        : SnakeCase<Name>;
    }[FieldName<M>]
  | Exclude<keyof Form, SnakeCase<FieldName<M>>>;

/** The form, if it matches the message; else a type that names the differences and is not assignable. */
type NormalForm<M, Form, Redacted> = [Exclude<Differences<M, Form>, Redacted>] extends [never]
  ? Form
  : { readonly differs: Exclude<Differences<M, Form>, Redacted> };

type Values = Readonly<Record<string, unknown>>;
type Convert = (value: never) => JsonValue;

interface Member {
  readonly localName: string;
  readonly name: string;
  readonly convert: Convert;
}

/** Lists that were added later: left out if empty, so that older records stay the same. */
const leftOutEmpty: ReadonlySet<string> = new Set(["understood_obligations"]);

/**
 * Converts a message. Leaves out fields that are marked `debug_redact` (object bytes, secrets), so that they can
 * neither be recorded nor logged.
 *
 * Relies on validation: enumerations hold declared values, 64-bit integers are at most 2^53-1, optional members are not
 * empty. Throws a TypeError for a field of a kind that no request has.
 *
 * @typeParam Form type of the result, which compiles only with a member for every field
 * @typeParam Redacted fields that are marked `debug_redact`
 */
export function toNormalForm<M extends Message, Form, Redacted extends string = never>(
  desc: GenMessage<M>,
  message: M,
): NormalForm<M, Form, Redacted> {
  return convertMessage(desc, message) as NormalForm<M, Form, Redacted>;
}

/** `toNormalForm` for a type that is only known at run time. */
export function convertMessage(desc: DescMessage, message: Message): JsonObject {
  const values = message as unknown as Values;
  const result: Record<string, JsonValue> = {};
  for (const { localName, name, convert } of membersOf(desc)) {
    const value = values[localName];
    const isLeftOut = value === undefined || (leftOutEmpty.has(name) && (value as readonly unknown[]).length === 0);
    if (!isLeftOut) result[name] = convert(value as never);
  }
  return result;
}

const membersOf = rememberedBy((desc: DescMessage): readonly Member[] =>
  desc.fields
    .filter((field) => field.proto.options?.debugRedact !== true)
    .map((field) => ({ localName: field.localName, name: field.name, convert: converter(field) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1)),
);

function converter(field: DescField): Convert {
  switch (field.fieldKind) {
    case "message":
      return (value: Message) => convertMessage(field.message, value);
    case "enum": {
      const names = enumNames(field.enum);
      return (value: number) => {
        const name = names.get(value);
        if (name === undefined) throw new TypeError("enumeration holds a value that is not declared");
        return name;
      };
    }
    case "scalar":
      return scalar(field.scalar);
    case "list": {
      if (field.listKind !== "scalar") break;
      const convert = scalar(field.scalar);
      return (value: readonly never[]) => value.map(convert);
    }
    case "map":
      if (field.mapKind !== "scalar" || field.scalar !== ScalarType.STRING) break;
      return inOrder;
  }
  throw new TypeError(`${field} has no normal form`);
}

function scalar(type: ScalarType): Convert {
  switch (type) {
    case ScalarType.STRING:
    case ScalarType.BOOL:
      return (value: string | boolean) => value;
    case ScalarType.INT64:
      return (value: bigint) => Number(value);
    default:
      throw new TypeError(`${ScalarType[type]} has no normal form`);
  }
}

/** Copies the entries in order. A key may be any text, even `__proto__`, which assigning would lose. */
function inOrder(value: Record<string, string>): JsonObject {
  const keys = Object.keys(value);
  if (keys.length < 2) return { ...value };
  return Object.fromEntries(keys.sort().map((key) => [key, value[key] as string]));
}

/** Words of an enumeration by number, such as `tdf` for `ARTIFACT_PROFILE_TDF`. */
export function enumNames(desc: DescEnum): ReadonlyMap<number, string> {
  const prefixLength = desc.sharedPrefix?.length ?? 0;
  return new Map(desc.values.map(({ number, name }) => [number, name.slice(prefixLength).toLowerCase()]));
}

/** The same as the JSON routes spell them: the unspecified value is the empty text, which means absent. */
export function restWords(desc: DescEnum): ReadonlyMap<number, string> {
  return new Map([...enumNames(desc)].map(([number, name]) => [number, number === 0 ? "" : name]));
}
