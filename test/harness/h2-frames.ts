/** HTTP/2 frames by hand (RFC 9113 §4.1), for what no client library would send. */
import net from "node:net";

/** What a client says first (RFC 9113 §3.4). */
export const h2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** One frame: length, type, flags, stream, payload. */
export function h2Frame(type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.byteLength, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Header block of a GET (RFC 7541): method and scheme from the static table, path and authority as literals. */
export function h2RequestHeaders(path: string): Buffer {
  const literal = (nameIndex: number, value: string) =>
    Buffer.concat([Buffer.from([nameIndex, value.length]), Buffer.from(value, "latin1")]);
  return Buffer.concat([Buffer.from([0x82, 0x86]), literal(0x04, path), literal(0x01, "localhost")]);
}

/** A field that is in no table (RFC 7541 §6.2.2), its strings plain. The name is lowercase. */
export function h2Field(name: string, value: string): Buffer {
  const text = (bytes: string) => Buffer.concat([prefixed(bytes.length), Buffer.from(bytes, "latin1")]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

export const h2Fields = (fields: Readonly<Record<string, string>>): Buffer =>
  Buffer.concat(Object.entries(fields).map(([name, value]) => h2Field(name, value)));

/** SETTINGS_INITIAL_WINDOW_SIZE 0: no body of an answer can leave. */
export const h2NoWindow = Buffer.from([0, 4, 0, 0, 0, 0]);

/**
 * Opens a connection with these settings, acknowledges those of the server, and calls back for each frame that comes.
 * The caller destroys it.
 */
export function h2Raw(
  url: string,
  onFrame: (type: number, flags: number, streamId: number) => void,
  { settings = new Uint8Array(), localAddress = "127.0.0.1" } = {},
): net.Socket {
  const { hostname, port } = new URL(url);
  const socket = net.connect({ host: hostname, port: Number(port), localAddress }).on("error", () => {});
  let received: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 9 && received.length >= 9 + received.readUIntBE(0, 3)) {
      const [type, flags] = [received.readUInt8(3), received.readUInt8(4)];
      if (type === 4 && (flags & 1) === 0) socket.write(h2Frame(4, 1, 0));
      onFrame(type, flags, received.readUInt32BE(5));
      received = received.subarray(9 + received.readUIntBE(0, 3));
    }
  });
  socket.write(Buffer.concat([h2Preface, h2Frame(4, 0, 0, settings)]));
  return socket;
}

/** An integer with a prefix of seven bits (RFC 7541 §5.1). */
function prefixed(value: number): Buffer {
  if (value < 127) return Buffer.from([value]);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
  return Buffer.from([...bytes, rest]);
}
