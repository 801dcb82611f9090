/**
 * Statements as the driver takes them: named, and with arrays in the server's binary form (`array_recv`). The driver's
 * text form takes twice the bytes for binary elements, and as much work again on the server.
 */
import { hash } from "node:crypto";
import { types } from "pg";
import type { Value } from "../../sql/queries.ts";
import type { ColumnType } from "../../sql/schema.ts";

/** Bytes before the elements: dimensions, flags, type of the elements, their number, index of the first. */
const headerBytes = 20;

interface ElementType {
  readonly oid: number;
  sizeOf(value: never): number;
  write(value: never, into: Buffer, at: number): void;
}

const elementTypes: Readonly<Record<ColumnType, ElementType>> = {
  bytea: {
    oid: types.builtins.BYTEA,
    sizeOf: (value: Uint8Array) => value.length,
    write: (value: Uint8Array, into, at) => into.set(value, at),
  },
  text: {
    oid: types.builtins.TEXT,
    sizeOf: (value: string) => Buffer.byteLength(value),
    write: (value: string, into, at) => void into.write(value, at, "utf8"),
  },
  integer: {
    oid: types.builtins.INT4,
    sizeOf: () => 4,
    write: (value: number, into, at) => void into.writeInt32BE(value, at),
  },
  // Of safe integers.
  bigint: {
    oid: types.builtins.INT8,
    sizeOf: () => 8,
    write: (value: number, into, at) => void into.writeBigInt64BE(BigInt(value), at),
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

function encoded(type: ColumnType | undefined, values: readonly Value[]): Buffer {
  if (type === undefined) throw new TypeError("The statement does not state the type of an array.");
  const { oid, sizeOf, write } = elementTypes[type];
  const sizes = values.map((value) => (value === null ? -1 : sizeOf(value as never)));
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + 4 + Math.max(0, size), headerBytes));
  bytes.writeInt32BE(values.length === 0 ? 0 : 1, 0);
  bytes.writeInt32BE(sizes.includes(-1) ? 1 : 0, 4);
  bytes.writeInt32BE(oid, 8);
  if (values.length === 0) return bytes.subarray(0, 12);
  bytes.writeInt32BE(values.length, 12);
  bytes.writeInt32BE(1, 16);
  let at = headerBytes;
  values.forEach((value, position) => {
    const size = sizes[position] as number;
    bytes.writeInt32BE(size, at);
    if (value !== null) write(value as never, bytes, at + 4);
    at += 4 + Math.max(0, size);
  });
  return bytes;
}
