/** Bare HTTP/1.1 over a socket: a test sends exactly the bytes that it wants to, and reads what comes back. */
import net from "node:net";

export interface H1Answer {
  readonly status: number;
  /** Names in lowercase. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface H1Connection {
  /** Sends bytes; text as Latin-1. */
  write(bytes: string | Uint8Array): void;
  /** Ends our half of the connection. */
  end(): void;
  /** Cuts the connection off. */
  destroy(): void;
  /**
   * The next answer, `100 Continue` too; undefined where the connection ends without one.
   * @param bodyless whether it answers a HEAD request
   */
  next(bodyless?: boolean): Promise<H1Answer | undefined>;
  /** Resolves when the server has closed the connection. */
  readonly closed: Promise<void>;
}

export function h1Connect(url: string): Promise<H1Connection> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => resolve(connectionOf(socket.off("error", reject))));
  });
}

/** Whether the server refuses a new connection. */
export async function refusesConnections(url: string): Promise<boolean> {
  const connection = await h1Connect(url).catch(() => undefined);
  connection?.destroy();
  return connection === undefined;
}

/** Sends one request on a connection of its own and reads one answer; undefined where there is none. */
export async function h1Exchange(url: string, bytes: string | Uint8Array): Promise<H1Answer | undefined> {
  const connection = await h1Connect(url);
  connection.write(bytes);
  const answer = await connection.next(typeof bytes === "string" && bytes.startsWith("HEAD "));
  connection.destroy();
  return answer;
}

/** Text of a request: the given head lines, `Host`, and the body as it is. */
export function h1Request(line: string, headers: readonly string[], body = ""): string {
  return [`${line} HTTP/1.1`, "Host: localhost", ...headers, "", body].join("\r\n");
}

function connectionOf(socket: net.Socket): H1Connection {
  let received: Buffer = Buffer.alloc(0);
  let ended = false;
  let wake = () => {};
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    wake();
  });
  const end = () => {
    ended = true;
    wake();
  };
  const closed = new Promise<void>((resolve) => {
    socket.on("end", () => socket.end());
    socket.on("close", () => resolve());
  });
  socket.on("end", end).on("close", end);
  // A connection that the server resets is one that it closed.
  socket.on("error", () => {});
  return {
    closed,
    write: (bytes) => void (typeof bytes === "string" ? socket.write(bytes, "latin1") : socket.write(bytes)),
    end: () => void socket.end(),
    destroy: () => void socket.destroy(),
    async next(bodyless = false) {
      for (;;) {
        const parsed = parseAnswer(received, bodyless);
        if (parsed !== undefined) {
          received = received.subarray(parsed.sizeBytes);
          return parsed.answer;
        }
        if (ended) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** The answer at the start of the bytes, if it is whole. */
function parseAnswer(bytes: Buffer, bodyless: boolean): { answer: H1Answer; sizeBytes: number } | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const [statusLine = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error("the server did not answer in HTTP/1.1");
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const start = headEnd + 4;
  if (bodyless || status === 100) return { answer: { status, headers, text: "" }, sizeBytes: start };
  const body =
    headers.get("transfer-encoding") === "chunked"
      ? chunkedBody(bytes, start)
      : { text: bytes.subarray(start), end: start + Number(headers.get("content-length") ?? 0) };
  if (body === undefined || body.end > bytes.length) return undefined;
  const text = body.text.subarray(0, body.end - start).toString("utf8");
  return { answer: { status, headers, text }, sizeBytes: body.end };
}

function chunkedBody(bytes: Buffer, start: number): { text: Buffer; end: number } | undefined {
  const chunks: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(bytes.subarray(at, lineEnd).toString("latin1"), 16);
    const next = lineEnd + 2 + size + 2;
    if (next > bytes.length) return undefined;
    if (size === 0) return { text: Buffer.concat(chunks), end: next };
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}
