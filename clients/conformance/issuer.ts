/** An issuer that does what a case says: opaque tokens by the client-credentials grant, over TLS, counted. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { verifyProof } from "./dpop.ts";
import type { IssuerScript, SeenTokenRequest, TokenAct } from "./script.ts";
import { certificateOf, closeNow, nowMs, pause, type ServerTls } from "./sockets.ts";

/** What the service knows of a token. */
export interface IssuedToken {
  readonly expiresAtMs: number;
  /** Thumbprint of the DPoP key that it is bound to. */
  readonly thumbprint: string | undefined;
}

export interface ScriptedIssuer {
  readonly url: string;
  readonly tokens: ReadonlyMap<string, IssuedToken>;
  readonly requests: readonly SeenTokenRequest[];
  readonly discoveries: number;
  stop(): Promise<void>;
}

export const clientId = "payroll";
export const clientSecret = "s3cret: with a colon & 100 %";

/** Starts it on a free port of loopback. */
export async function startIssuer(script: IssuerScript, tls: ServerTls): Promise<ScriptedIssuer> {
  const tokens = new Map<string, IssuedToken>();
  const requests: SeenTokenRequest[] = [];
  const stopping = new AbortController();
  const used = new Set<string>();
  let discoveries = 0;
  const server = createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `https://localhost:${(server.address() as AddressInfo).port}/realms/test`;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = `https://${request.headers.host}${request.url}`;
    if (path === `${url}/.well-known/openid-configuration`) {
      discoveries += 1;
      return sendJson(response, 200, { issuer: script.claims ?? url, token_endpoint: `${url}/token` });
    }
    if (path !== `${url}/token` || request.method !== "POST") return sendJson(response, 404, { error: "not_found" });
    await grant(request, response);
  }

  async function grant(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString("utf8"));
    const seen: SeenTokenRequest = {
      atMs: nowMs(),
      method: methodOf(request, form),
      form,
      certificate: certificateOf(request.socket as TLSSocket),
      nonce: undefined,
    };
    requests.push(seen);
    const act: TokenAct = script.acts?.[requests.length - 1] ?? { does: "grant" };
    if (act.does === "reset") return void request.socket.destroy();
    if (act.does === "page") return void response.writeHead(act.status, { "content-type": "text/html" }).end("<html>");
    if (act.does === "refuse") return sendJson(response, act.status, { error: act.error });
    if (!isAuthenticated(request, form, seen)) return sendJson(response, 401, { error: "invalid_client" });
    if (form.get("grant_type") !== "client_credentials")
      return sendJson(response, 400, { error: "unsupported_grant_type" });
    let thumbprint: string | undefined;
    const dpop = request.headers.dpop;
    if (dpop !== undefined) {
      const proof = await verifyProof(String(dpop), { method: "POST", url: `${url}/token` }, used);
      if (typeof proof === "string")
        return sendJson(response, 400, { error: "invalid_dpop_proof", error_description: proof });
      if (script.nonce !== undefined && proof.nonce !== script.nonce)
        return sendJson(response, 400, { error: "use_dpop_nonce" }, { "dpop-nonce": script.nonce });
      thumbprint = proof.thumbprint;
    }
    if (act.afterMs !== undefined) await pause(act.afterMs, stopping.signal);
    const lifetimeSeconds = act.lifetimeSeconds ?? 300;
    const token = `token-${requests.length}`;
    seen.granted = token;
    tokens.set(token, { expiresAtMs: nowMs() + lifetimeSeconds * 1000, thumbprint });
    const token_type = thumbprint === undefined ? "Bearer" : "DPoP";
    sendJson(response, 200, { access_token: token, token_type, expires_in: lifetimeSeconds });
  }

  return {
    url,
    tokens,
    requests,
    get discoveries() {
      return discoveries;
    },
    stop: () => {
      stopping.abort();
      return closeNow(server);
    },
  };
}

function methodOf({ headers }: IncomingMessage, form: URLSearchParams): SeenTokenRequest["method"] {
  if (headers.authorization !== undefined) return "client_secret_basic";
  return form.has("client_secret") ? "client_secret_post" : "tls_client_auth";
}

function isAuthenticated({ headers }: IncomingMessage, form: URLSearchParams, seen: SeenTokenRequest): boolean {
  switch (seen.method) {
    case "client_secret_basic": {
      // RFC 6749 §2.3.1: both halves are form-encoded.
      const [scheme, encoded = ""] = (headers.authorization ?? "").split(" ");
      const halves = Buffer.from(encoded, "base64").toString("utf8").split(":");
      const [id, secret] = halves.map((half) => new URLSearchParams(`half=${half}`).get("half"));
      return scheme === "Basic" && halves.length === 2 && id === clientId && secret === clientSecret;
    }
    case "client_secret_post":
      return form.get("client_id") === clientId && form.get("client_secret") === clientSecret;
    case "tls_client_auth":
      return form.get("client_id") === clientId && seen.certificate !== undefined;
  }
}

function sendJson(response: ServerResponse, status: number, value: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
}
