/** Small things that both servers need. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Server } from "node:https";
import type { TLSSocket } from "node:tls";
import type { Certificates } from "./certificates.ts";

export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  readonly ca: string;
}

export function serverTls({ named, ca }: Certificates): ServerTls {
  const read = (path: string) => readFileSync(path, "utf8");
  return { key: read(named.key), cert: read(named.cert), ca: read(ca) };
}

/** Base64url SHA-256 of the certificate that the peer presented; undefined for none, and for one of a stranger. */
export function certificateOf(socket: TLSSocket): string | undefined {
  const certificate = socket.authorized ? socket.getPeerX509Certificate() : undefined;
  return certificate && createHash("sha256").update(certificate.raw).digest("base64url");
}

/** A clock that never goes back. */
export const nowMs = (): number => performance.now();

/** Resolves after the time, or at once when the signal aborts. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, delayMs);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

export function closeNow(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
    server.closeAllConnections();
  });
}
