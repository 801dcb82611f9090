/** Who am I, asked with the same headers over REST and over gRPC. */
import type { ClientHttp2Session } from "node:http2";
import { expect } from "vitest";
import { frame, refusalInTrailers } from "./grpc.ts";
import { h1Exchange, h1Request } from "./h1.ts";
import { h2Call } from "./h2.ts";

/** Names and values in their order; a name may come twice. */
export type Lines = readonly (readonly [string, string])[];

const statuses: Readonly<Record<string, number>> = { unauthenticated: 401, permission_denied: 403, unavailable: 503 };

/** Reason of the refusal, the same on both protocols; undefined if both let the call in. */
export async function reasonOnBoth(
  url: string,
  session: ClientHttp2Session,
  lines: Lines,
): Promise<string | undefined> {
  const headers = lines.map(([name, value]) => `${name}: ${value}`);
  const answer = await h1Exchange(url, h1Request("GET /v1/sdk/whoami", headers));
  const { trailers } = await h2Call(session, {
    path: "/platform.sdk.v1.DiscoveryService/WhoAmI",
    headers: { "content-type": "application/grpc", ...grouped(lines) },
    body: frame(Buffer.alloc(0)),
  });
  const refusal = refusalInTrailers(trailers);
  const body = JSON.parse(answer?.text ?? "");
  expect(refusal?.reason).toBe(body.error?.reason);
  expect(answer?.status).toBe(refusal === undefined ? 200 : statuses[refusal.code]);
  expect(answer?.headers.get("www-authenticate")).toBe(trailers["www-authenticate"]);
  return refusal?.reason;
}

/** As Node writes headers. */
function grouped(lines: Lines): Record<string, string[]> {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of lines) {
    const key = name.toLowerCase();
    headers[key] = [...(headers[key] ?? []), value];
  }
  return headers;
}
