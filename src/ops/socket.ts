import type { Server, ServerOptions } from "node:http";
import type { FastifyHttpOptions } from "fastify";

/** Certificate chain and key in PEM, and the authorities of client certificates, which bound tokens are shown with. */
export interface OpsTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

/** Fastify's options of the socket. Its types keep plaintext and TLS apart; who uses the server need not. */
export function socketOptions(tls: OpsTls | undefined): Pick<FastifyHttpOptions<Server>, "http"> {
  // A request without one gets an answer in our own words.
  const http: ServerOptions = { requireHostHeader: false };
  if (tls === undefined) return { http };
  const { cert, key, clientCa } = tls;
  // Without a certificate, or with one of another authority, whoever asks still gets an answer: its token decides.
  const client = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: false };
  return { https: { ...http, cert, key, minVersion: "TLSv1.2", ...client } } as object;
}
