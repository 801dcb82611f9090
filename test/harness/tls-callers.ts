/** Callers over TLS that keep a connection, or make one for each call: HTTP/1.1 and HTTP/2, with nothing beyond Node. */
import { createHash } from "node:crypto";
import type { ClientHttp2Session } from "node:http2";
import https from "node:https";
import tls from "node:tls";
import { h2Call, h2Connect } from "./h2.ts";

/** What a caller connects with. */
export interface TlsIdentity {
  /** PEM of the authorities whose servers it trusts. */
  readonly ca: string;
  readonly cert?: string;
  readonly key?: string;
}

export const whoamiPath = "/v1/sdk/whoami";

/** One call of `whoami` by the agent; `status 200` or the reason of the refusal. Rejects where the connection fails. */
export function whoamiBy(agent: https.Agent, url: string, token: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const outgoing = https.request(url + whoamiPath, { agent, headers });
    outgoing.once("error", reject).once("response", (response) => {
      response.toArray().then((chunks) => {
        const { error } = JSON.parse(Buffer.concat(chunks).toString());
        resolve(error?.reason ?? `status ${response.statusCode}`);
      }, reject);
    });
    outgoing.end();
  });
}

/** The same on a session of HTTP/2. */
export async function whoamiOn(session: ClientHttp2Session, token: string): Promise<string> {
  const call = { method: "GET", path: whoamiPath, headers: { authorization: `Bearer ${token}` } };
  const { status, body, resetCode } = await h2Call(session, call);
  if (status === 0) throw new Error(`no answer, reset with ${resetCode}`);
  return JSON.parse(body.toString()).error?.reason ?? `status ${status}`;
}

export interface Handshake {
  /** Of the server's certificate, as `IssuedCertificate` has it; undefined where the session is resumed. */
  readonly thumbprint: string | undefined;
  readonly isResumed: boolean;
  /** To resume with. */
  readonly session: Buffer | undefined;
}

/** Connects, asks who it is, and leaves. */
export function shakeHands(
  url: string,
  identity: TlsIdentity,
  options: tls.ConnectionOptions = {},
): Promise<Handshake> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let session: Buffer | undefined;
    const socket = tls.connect({ host: hostname, port: Number(port), ...identity, ...options });
    socket.once("error", reject).on("session", (given) => {
      session = given;
    });
    // Tickets of TLS 1.3 come after the handshake, before the answer.
    socket.once("secureConnect", () =>
      socket.write(`GET / HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`),
    );
    socket.once("data", () => {
      const { raw } = socket.getPeerX509Certificate() ?? {};
      const thumbprint = raw && createHash("sha256").update(raw).digest("base64url");
      resolve({ thumbprint, isResumed: socket.isSessionReused(), session: session ?? socket.getSession() });
      socket.destroy();
    });
  });
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
