/** HTTP/1.1 by Node's own modules, which can present a client certificate. */
import { type IncomingMessage, request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import { Code, ConnectError } from "@connectrpc/connect";
import { readAllBytes } from "@connectrpc/connect/protocol";
import type { HttpClient } from "./http.ts";
import type { TlsIdentity } from "./tls.ts";

/** Creates the client. Connections are kept alive, and shared by requests with the same identity. */
export function nodeHttpClient(identities: () => TlsIdentity): HttpClient {
  const send: HttpClient = async ({ url, method, header, body, signal }) => {
    const bytes = body === undefined ? undefined : await readAllBytes(body, Number.MAX_SAFE_INTEGER);
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = url.startsWith("https:") ? requestTls : requestPlain;
      const options = { ...identities(), method, headers: Object.fromEntries(header), ...(signal && { signal }) };
      const sent = request(url, options, resolve).once("error", reject);
      // In Deno the signal alone does not end a request on a reused connection.
      const leave = () => {
        sent.destroy();
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      sent.once("response", () => signal?.removeEventListener("abort", leave));
      sent.once("error", () => signal?.removeEventListener("abort", leave));
      if (signal?.aborted === true) leave();
      else sent.end(bytes);
    }).catch((cause: unknown) => {
      throw failure("the server cannot be reached", cause, signal);
    });
    return {
      status: response.statusCode ?? 0,
      header: headersOf(response),
      body: chunksOf(response, signal),
      trailer: new Headers(),
    };
  };
  return Object.assign(send, { identity: identities });
}

function headersOf({ headers }: IncomingMessage): Headers {
  const entries = Object.entries(headers).flatMap(([name, value = []]) => [value].flat().map((one) => [name, one]));
  return new Headers(entries as [string, string][]);
}

async function* chunksOf(response: IncomingMessage, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  try {
    yield* response;
  } catch (cause) {
    throw failure("the connection broke", cause, signal);
  }
}

function failure(what: string, cause: unknown, signal: AbortSignal | undefined): ConnectError {
  if (signal?.aborted === true) return ConnectError.from(signal.reason, Code.Canceled);
  // An error for several addresses has no message.
  const { message = "", code } = cause as NodeJS.ErrnoException;
  return new ConnectError(`${what}: ${message || code}`, Code.Unavailable, undefined, undefined, cause);
}
