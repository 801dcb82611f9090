/** Who am I, asked with the same headers over REST and over gRPC. */
import type { ClientHttp2Session } from "node:http2";
import { expect } from "vitest";
import { frame, refusalInEnvelope, refusalInTrailers } from "./grpc.ts";
import { h1Exchange, h1Request } from "./h1.ts";
import { h2Call } from "./h2.ts";

/** Names and values in their order; a name may come twice. */
export type Lines = readonly (readonly [string, string])[];

const statuses: Readonly<Record<string, number>> = { unauthenticated: 401, permission_denied: 403, unavailable: 503 };

export const whoamiPaths = { REST: "/v1/sdk/whoami", gRPC: "/platform.sdk.v1.DiscoveryService/WhoAmI" };

/** What came of it; `refusal` is undefined if the call was let in. */
export async function whoamiOverRest(url: string, lines: Lines) {
  const headers = lines.map(([name, value]) => `${name}: ${value}`);
  const answer = await h1Exchange(url, h1Request(`GET ${whoamiPaths.REST}`, headers));
  const { error } = JSON.parse(answer?.text ?? "");
  const refusal = error && refusalInEnvelope({ error });
  return { status: answer?.status, refusal, header: (name: string) => answer?.headers.get(name) };
}

export async function whoamiOverGrpc(session: ClientHttp2Session, lines: Lines) {
  const { trailers } = await h2Call(session, {
    path: whoamiPaths.gRPC,
    headers: { "content-type": "application/grpc", ...grouped(lines) },
    body: frame(Buffer.alloc(0)),
  });
  return { refusal: refusalInTrailers(trailers), header: (name: string) => trailers[name]?.toString() };
}

/** Reason of the refusal, the same on both protocols; undefined if both let the call in. */
export async function reasonOnBoth(
  url: string,
  session: ClientHttp2Session,
  lines: Lines,
): Promise<string | undefined> {
  const [rest, grpc] = [await whoamiOverRest(url, lines), await whoamiOverGrpc(session, lines)];
  expect(grpc.refusal?.reason).toBe(rest.refusal?.reason);
  expect(rest.status).toBe(grpc.refusal === undefined ? 200 : statuses[grpc.refusal.code]);
  expect(rest.header("www-authenticate")).toBe(grpc.header("www-authenticate"));
  return grpc.refusal?.reason;
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
