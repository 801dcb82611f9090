/**
 * Statements as the driver takes them: named, and with arrays in the server's binary form (`array_recv`). The driver's
 * text form takes twice the bytes for binary elements, and as much work again on the server.
 */
import { hash } from "node:crypto";
import { types } from "pg";
import type { Value } from "../../sql/queries.ts";
import type { ColumnType } from "../../sql/schema.ts";

/** The object id of an element's type, and the bytes of an element. */
interface ElementType {
  readonly oid: number;
  bytesOf(value: never): Uint8Array;
}

const elementTypes: Readonly<Record<ColumnType, ElementType>> = {
  bytea: { oid: types.builtins.BYTEA, bytesOf: (value: Uint8Array) => value },
  text: { oid: types.builtins.TEXT, bytesOf: (value: string) => Buffer.from(value) },
  integer: { oid: types.builtins.INT4, bytesOf: (value: number) => int32(value) },
  // Of safe integers.
  bigint: {
    oid: types.builtins.INT8,
    bytesOf: (value: number) => {
      const bytes = Buffer.allocUnsafe(8);
      bytes.writeBigInt64BE(BigInt(value));
      return bytes;
    },
  },
};

interface Prepared {
  /** A connection prepares a statement once for each name, which stands for this text alone. */
  readonly name: string;
  /** The type of each parameter that is an array. */
  readonly types: readonly (ColumnType | undefined)[];
}

/** By the text of the statement. */
const known = new Map<string, Prepared>();

/** Encodes the values that are arrays, by the types in the statement's text, such as `$2::bytea[]`. */
export function prepared(text: string, values: readonly unknown[]) {
  const { name, types } = known.get(text) ?? prepare(text);
  return { name, text, values: values.map((value, at) => (Array.isArray(value) ? encoded(types[at], value) : value)) };
}

/** Lengths of the parts of a name, which has 63 bytes at most: the beginning, for the server's log, and a hash. */
const [maxShown, hashLength] = [40, 22];

function prepare(text: string): Prepared {
  const types: (ColumnType | undefined)[] = [];
  for (const [, parameter, type] of text.matchAll(/\$(\d+)::(\w+)\[\]/g))
    types[Number(parameter) - 1] = type as ColumnType;
  const shown = text.trim().replaceAll(/\s+/g, " ").slice(0, maxShown);
  const name = `${shown} ${hash("sha256", text, "base64url").slice(0, hashLength)}`;
  const statement = { name, types };
  known.set(text, statement);
  return statement;
}

/** Dimensions, flags, type of the elements, their number, index of the first; then each with its length, -1 for NULL. */
function encoded(type: ColumnType | undefined, values: readonly Value[]): Buffer {
  if (type === undefined) throw new TypeError("The statement does not state the type of an array.");
  const { oid, bytesOf } = elementTypes[type];
  const hasNull = values.includes(null) ? 1 : 0;
  if (values.length === 0) return int32(0, hasNull, oid);
  const parts: Uint8Array[] = [int32(1, hasNull, oid, values.length, 1)];
  for (const value of values)
    if (value === null) parts.push(int32(-1));
    else {
      const bytes = bytesOf(value as never);
      parts.push(int32(bytes.length), bytes);
    }
  return Buffer.concat(parts);
}

function int32(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 * values.length);
  values.forEach((value, at) => void bytes.writeInt32BE(value, 4 * at));
  return bytes;
}
