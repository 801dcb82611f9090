/**
 * Encodes arrays as parameters in the server's binary form (`array_recv`). The driver's text form takes twice the bytes
 * for binary elements, and as much work again on the server.
 */
import { types } from "pg";

/** Bytes before the elements: dimensions, flags, type of the elements, their number, index of the first. */
const headerBytes = 20;
const oids = {
  bytea: types.builtins.BYTEA,
  text: types.builtins.TEXT,
  int4: types.builtins.INT4,
  int8: types.builtins.INT8,
};

export function byteaArray(values: readonly Uint8Array[]): Buffer {
  return arrayOf(
    oids.bytea,
    values,
    ({ length }) => length,
    (value, into, at) => into.set(value, at),
  );
}

export function textArray(values: readonly string[]): Buffer {
  return arrayOf(oids.text, values, Buffer.byteLength, (value, into, at) => void into.write(value, at, "utf8"));
}

export function integerArray(values: readonly number[]): Buffer {
  return arrayOf(
    oids.int4,
    values,
    () => 4,
    (value, into, at) => void into.writeInt32BE(value, at),
  );
}

/** A `bigint[]`, of safe integers. */
export function bigintArray(values: readonly number[]): Buffer {
  return arrayOf(
    oids.int8,
    values,
    () => 8,
    (value, into, at) => void into.writeBigInt64BE(BigInt(value), at),
  );
}

function arrayOf<Value>(
  oid: number,
  values: readonly Value[],
  sizeOf: (value: Value) => number,
  write: (value: Value, into: Buffer, at: number) => void,
): Buffer {
  const sizes = values.map(sizeOf);
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + 4 + size, headerBytes));
  bytes.writeInt32BE(values.length === 0 ? 0 : 1, 0);
  bytes.writeInt32BE(0, 4);
  bytes.writeInt32BE(oid, 8);
  if (values.length === 0) return bytes.subarray(0, 12);
  bytes.writeInt32BE(values.length, 12);
  bytes.writeInt32BE(1, 16);
  let at = headerBytes;
  values.forEach((value, position) => {
    const size = sizes[position] ?? 0;
    bytes.writeInt32BE(size, at);
    write(value, bytes, at + 4);
    at += 4 + size;
  });
  return bytes;
}
