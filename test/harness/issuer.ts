/** A bare issuer that publishes what a test tells it to, right or wrong, and counts what is asked of it. */
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { JWK } from "jose";
import { everyTenant, type IssuerEntry } from "../../src/base/issuers.ts";
import { listenOnLoopback } from "./loopback.ts";

export interface StaticIssuer {
  /** Issuer identifier: `http://127.0.0.1:<port>/realms/test`. */
  readonly url: string;
  readonly port: number;
  /** Published keys; change them to rotate. */
  keys: JWK[];
  /** Answers the documents instead of the right ones; undefined for the right ones. */
  answer: ((path: "discovery" | "keys", response: ServerResponse) => void) | undefined;
  /** Number of requests so far. */
  readonly fetches: { discovery: number; keys: number };
  /** Holds answers back from now on; the returned function lets them go, those that wait too. */
  hold(): () => void;
  stop(): Promise<void>;
}

/**
 * Starts it on 127.0.0.1.
 * @param port default: any free one
 */
export async function startStaticIssuer(keys: JWK[] = [], port = 0): Promise<StaticIssuer> {
  let held: Promise<void> | undefined;
  const respond: RequestListener = async (request, response) => {
    const path = paths[request.url ?? ""];
    if (path === undefined) return void response.writeHead(404).end();
    issuer.fetches[path] += 1;
    await held;
    if (issuer.answer !== undefined) return issuer.answer(path, response);
    const { url } = issuer;
    sendJson(response, path === "keys" ? { keys: issuer.keys } : { issuer: url, jwks_uri: `${url}/keys` });
  };
  const { port: own, stop } = await listenOnLoopback(createServer(respond), port);
  const issuer: StaticIssuer = {
    url: `http://127.0.0.1:${own}/realms/test`,
    port: own,
    keys,
    answer: undefined,
    fetches: { discovery: 0, keys: 0 },
    hold() {
      const gate = Promise.withResolvers<void>();
      held = gate.promise;
      return () => {
        held = undefined;
        gate.resolve();
      };
    },
    stop,
  };
  return issuer;
}

/** What a deployment decides about an issuer that speaks for every tenant. */
export function issuerEntry(issuer: string, changes: Partial<IssuerEntry> = {}): IssuerEntry {
  const claims = { tenant: "tenant_id", principal: "principal_id", subject: "sub", scope: "scope" };
  const audience = "api://svc-platform-api";
  return { issuer, audience, requireAtJwt: false, claims, tenants: everyTenant, ...changes };
}

/** Answers 200 with the JSON of the value. */
export function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

const paths: Readonly<Record<string, "discovery" | "keys">> = {
  "/realms/test/.well-known/openid-configuration": "discovery",
  "/realms/test/keys": "keys",
};
