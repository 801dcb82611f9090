/** Bare HTTP/2 calls over cleartext: nothing between a test and what goes over the wire. */
import http2, {
  type ClientHttp2Session,
  type ClientSessionOptions,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";

export interface H2Call {
  readonly path: string;
  /** Default POST. */
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Sent as one chunk; an empty stream where absent. */
  readonly body?: Uint8Array;
  /** Sent after the body. */
  readonly trailers?: OutgoingHttpHeaders;
  /** Leaves the stream open after the body, as a caller does that never finishes. */
  readonly unfinished?: boolean;
}

export interface H2Answer {
  /** 0 where the stream ended without headers. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** How the stream was closed (RFC 9113 §7); 0 is in good order. */
  readonly resetCode: number;
}

/** Opens a session; rejects where the server does not take it. */
export function h2Connect(
  url: string,
  options: ClientSessionOptions | SecureClientSessionOptions = {},
): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    const session = http2.connect(url, options);
    session.once("error", reject);
    session.once("connect", () => {
      session.off("error", reject);
      // What a test does to its session it sees in its calls.
      session.on("error", () => {});
      resolve(session);
    });
  });
}

/** Makes one call on the session. Resolves once the stream is closed, however that came about. */
export function h2Call(session: ClientHttp2Session, call: H2Call): Promise<H2Answer> {
  const { path, method = "POST", headers = {}, body, trailers, unfinished = false } = call;
  return new Promise((resolve) => {
    const stream = session.request(
      { ":method": method, ":path": path, ...headers },
      // A GET says from the start that it has no body.
      { endStream: method === "GET" && body === undefined, waitForTrailers: trailers !== undefined },
    );
    const answer = { status: 0, headers: {}, trailers: {} };
    const chunks: Buffer[] = [];
    stream.on("response", ({ ":status": status, ...rest }) => {
      answer.status = Number(status);
      answer.headers = rest;
    });
    stream.on("trailers", (received) => {
      answer.trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      // The answer is whole; a body that was left open is of no more use.
      if (unfinished) stream.close();
    });
    // How the stream ended is in its reset code.
    stream.on("error", () => {});
    stream.on("close", () => resolve({ ...answer, body: Buffer.concat(chunks), resetCode: stream.rstCode ?? 0 }));
    if (trailers !== undefined) stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    if (body !== undefined) stream.write(body);
    if (!unfinished) stream.end();
  });
}

/** Closes a session and resolves when its socket is gone. */
export function h2Close(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve) => {
    if (session.closed || session.destroyed) return resolve();
    session.close(() => resolve());
  });
}
