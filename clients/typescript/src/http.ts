/** The client's interface to HTTP: one function, implemented by `fetch` or Node's own modules. */

import { Code, ConnectError } from "@connectrpc/connect";
import { createAsyncIterable, readAllBytes, type UniversalClientFn } from "@connectrpc/connect/protocol";

/** Sends one request. Rejects with a `ConnectError` if there is no answer. */
export type HttpClient = UniversalClientFn & {
  /** The current client identity, which changes when it is replaced. Absent: it never changes. */
  readonly identity?: () => unknown;
};

/** A complete answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Largest answer, in bytes: larger than that of a bulk call of 8 MiB with whole receipts. */
const maxAnswerBytes = 16 * 1024 * 1024;

/** Sends the request and reads its answer. */
export async function exchange(
  client: HttpClient,
  request: {
    readonly url: string;
    readonly method: string;
    readonly headers: Headers;
    readonly body?: string;
    readonly signal?: AbortSignal;
  },
): Promise<HttpAnswer> {
  const { url, method, headers, body, signal } = request;
  const response = await client({
    url,
    method,
    header: headers,
    ...(body !== undefined && { body: once(new TextEncoder().encode(body)) }),
    ...(signal !== undefined && { signal }),
  });
  const bytes = await readAllBytes(response.body, maxAnswerBytes);
  return { status: response.status, headers: response.header, text: new TextDecoder().decode(bytes) };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/**
 * An HTTP client based on `fetch`. It presents no client certificate: if tokens are bound to one, use the HTTP client
 * of `svc-platform-client/node`.
 */
export function fetchHttpClient(fetch: typeof globalThis.fetch = globalThis.fetch): HttpClient {
  return async ({ url, method, header, body, signal }) => {
    const bytes = body === undefined ? undefined : new Uint8Array(await readAllBytes(body, Number.MAX_SAFE_INTEGER));
    const init = { method, headers: header, redirect: "error" as const, body: bytes ?? null, signal: signal ?? null };
    const response = await fetch(url, init).catch((cause: unknown) => {
      if (signal?.aborted === true) throw ConnectError.from(signal.reason, Code.Canceled);
      throw new ConnectError("the server cannot be reached", Code.Unavailable, undefined, undefined, cause);
    });
    return {
      status: response.status,
      header: response.headers,
      body: createAsyncIterable([new Uint8Array(await response.arrayBuffer())]),
      trailer: new Headers(),
    };
  };
}
