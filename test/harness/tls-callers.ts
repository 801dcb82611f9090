/** Callers over TLS that keep a connection, or make one for each call, with a client certificate or without. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { ClientHttp2Session } from "node:http2";
import https from "node:https";
import tls from "node:tls";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { refusalOf } from "./grpc.ts";
import { h2Call, h2Connect } from "./h2.ts";

/** What a caller connects with. */
export interface TlsIdentity {
  /** PEM of the authorities whose servers it trusts. */
  readonly ca: string;
  /** Its own certificate and key in PEM, if it shows one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

const whoamiPath = "/v1/sdk/whoami";
type Headers = Readonly<Record<string, string>>;

/** Sends a request by HTTP/1.1, as `fetch` does, with options of TLS. Rejects if the connection fails. */
export function tlsFetch(url: string | URL, options: https.RequestOptions, body?: string): Promise<Response> {
  return new Promise((resolve, reject) => {
    const outgoing = https.request(url, options, (answer) => {
      const { statusCode: status = 0, headers } = answer;
      const response = (chunks: Buffer[]) =>
        new Response(Buffer.concat(chunks), { status, headers: headers as Headers });
      answer.toArray().then((chunks) => resolve(response(chunks)), reject);
    });
    outgoing.once("error", reject).end(body);
  });
}

/** One call of `whoami` by the agent; `status 200` or the reason of the refusal. Rejects if the connection fails. */
export async function whoamiBy(agent: https.Agent, url: string, token: string): Promise<string> {
  const answer = await tlsFetch(url + whoamiPath, { agent, headers: { authorization: `Bearer ${token}` } });
  const { error } = JSON.parse(await answer.text());
  return error?.reason ?? `status ${answer.status}`;
}

/** The same on a session of HTTP/2. */
export async function whoamiOn(session: ClientHttp2Session, token: string): Promise<string> {
  const call = { method: "GET", path: whoamiPath, headers: { authorization: `Bearer ${token}` } };
  const { status, body, resetCode } = await h2Call(session, call);
  if (status === 0) throw new Error(`no answer, reset with ${resetCode}`);
  return JSON.parse(body.toString()).error?.reason ?? `status ${status}`;
}

/** The caller as the service names it, or why it did not say. */
type Answer = { readonly tenant: string; readonly source: string } | { readonly reason: string };

export async function whoamiByRest(url: string, caller: TlsIdentity, headers: Headers): Promise<Answer> {
  const answer = await tlsFetch(url + whoamiPath, { headers, agent: false, ...caller });
  const text = await answer.text();
  if (!text.startsWith("{")) return { reason: `status ${answer.status}` };
  const body = JSON.parse(text);
  return body.caller === undefined
    ? { reason: body.error.reason }
    : { tenant: body.caller.tenant_id, source: body.caller.auth_source };
}

export async function whoamiByGrpc(url: string, caller: TlsIdentity, headers: Headers): Promise<Answer> {
  const sessionManager = new Http2SessionManager(url, undefined, { ...caller } as Headers);
  const transport = createGrpcTransport({ baseUrl: url, sessionManager });
  try {
    const method = DiscoveryService.method.whoAmI;
    const { message } = await transport.unary(method, undefined, undefined, headers, create(method.input));
    return { tenant: message.caller?.tenantId ?? "", source: message.caller?.authSource ?? "" };
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const { reason } = refusalOf(error);
    return { reason: reason === "none" ? `${Code[error.code]}: ${error.rawMessage}` : reason };
  } finally {
    sessionManager.abort();
  }
}

/**
 * Connects, asks who it is, and leaves. Resolves with the thumbprint of the server's certificate, which is undefined if
 * the session was resumed, and with a session to resume.
 */
export async function shakeHands(url: string, identity: TlsIdentity, options: tls.ConnectionOptions = {}) {
  const { hostname, port } = new URL(url);
  let session: Buffer | undefined;
  const socket = tls.connect({ host: hostname, port: Number(port), ...identity, ...options });
  socket.on("session", (given) => {
    session = given;
  });
  await once(socket, "secureConnect");
  // Tickets of TLS 1.3 come after the handshake, before the answer.
  socket.write(`GET / HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`);
  await once(socket, "data");
  const { raw } = socket.getPeerX509Certificate() ?? {};
  const thumbprint = raw && createHash("sha256").update(raw).digest("base64url");
  const isResumed = socket.isSessionReused();
  session ??= socket.getSession();
  socket.destroy();
  return { thumbprint, isResumed, session };
}

export interface Load {
  /** What came of calls so far, by caller and outcome. */
  readonly outcomes: ReadonlyMap<string, number>;
  /** Resolves when no call is under way. */
  stop(): Promise<void>;
}

/** Calls without a pause: on connections that stay, and on a new one for each call, over both versions of HTTP. */
export function startLoad(url: string, identity: TlsIdentity, token: string): Load {
  const outcomes = new Map<string, number>();
  const kept = new https.Agent({ keepAlive: true, ...identity });
  let session: Promise<ClientHttp2Session> | undefined;
  const callers: Readonly<Record<string, () => Promise<string>>> = {
    "HTTP/1.1 kept": () => whoamiBy(kept, url, token),
    "HTTP/1.1 new": () => whoamiBy(new https.Agent({ maxCachedSessions: 0, ...identity }), url, token),
    "HTTP/2 kept": async () => {
      session ??= h2Connect(url, { ...identity });
      return whoamiOn(await session, token);
    },
    "HTTP/2 new": async () => {
      const own = await h2Connect(url, { ...identity });
      return whoamiOn(own, token).finally(() => own.close());
    },
  };
  let isOver = false;
  const running = Object.entries(callers).map(async ([name, call]) => {
    while (!isOver) {
      const outcome = await call().catch((error: unknown) => String(error));
      outcomes.set(`${name}: ${outcome}`, (outcomes.get(`${name}: ${outcome}`) ?? 0) + 1);
    }
  });
  return {
    outcomes,
    async stop() {
      isOver = true;
      await Promise.all(running);
      kept.destroy();
      (await session)?.destroy();
    },
  };
}
