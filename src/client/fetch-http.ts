import { Code, ConnectError } from "@connectrpc/connect";
import { createAsyncIterable, readAllBytes } from "@connectrpc/connect/protocol";
import type { HttpClient } from "./http.ts";

/**
 * An HTTP client made of `fetch`, for platforms where that is what there is. It presents no client certificate: where
 * tokens are bound to one, use the HTTP client of `svc-platform-api/client/node`.
 */
export function fetchHttpClient(fetch: typeof globalThis.fetch = globalThis.fetch): HttpClient {
  return async ({ url, method, header, body, signal }) => {
    const bytes = body === undefined ? undefined : await readAllBytes(body, Number.MAX_SAFE_INTEGER);
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
