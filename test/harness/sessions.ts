/** A deployment with a session route, and callers who ask it for sessions over REST and gRPC. */
import { argon2Sync, generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { CreateSessionRequestSchema, CreateSessionResponseSchema } from "../../gen/platform/sdk/v1/session_pb.ts";
import type { AttributeValues } from "../../src/base/caller.ts";
import type { TenantId } from "../../src/base/ids.ts";
import type { SecretHash } from "../../src/credentials/client-secret.ts";
import { formatClientFile } from "../../src/credentials/session-clients.ts";
import { replaceFile } from "./folder.ts";
import { rest, startGateway } from "./gateway.ts";
import { frame, refusalInTrailers } from "./grpc.ts";
import { h2Call, h2Close, h2Connect } from "./h2.ts";

const sessionRpcPath = "/platform.sdk.v1.SessionService/CreateSession";
export const sessionRestPath = "/v1/sdk/session";

/** A client that the deployment knows, with its secret. */
export interface TestClient {
  readonly tenantId: string;
  readonly clientId: string;
  readonly secret: string;
  readonly scopes: readonly string[];
  readonly attributes?: AttributeValues;
}

/** One of tenant-a, unless said otherwise. */
export function testClient(changes: Partial<TestClient> = {}): TestClient {
  const named = { tenantId: "tenant-a", clientId: "payroll-service", secret: "s".repeat(43) };
  return { ...named, scopes: ["platform-api.access"], ...changes };
}

/** What it asks for a session with. */
export const askOf = ({ tenantId, clientId, secret }: TestClient) => ({ tenantId, clientId, clientSecret: secret });

/** What came of asking for a session. */
export type SessionOutcome =
  | {
      readonly token: string;
      readonly tokenType: string;
      readonly expiresIn: number;
      readonly scope: string;
      readonly tenantId: string;
      readonly clientId: string;
      readonly subject: string;
    }
  | { readonly reason: string; readonly message: string; readonly retryAfter: string | undefined };

/** The token of a session that was opened. */
export function tokenOf(outcome: SessionOutcome): string {
  if ("token" in outcome) return outcome.token;
  throw new Error(`no session: ${outcome.reason}`);
}

export type SessionAsk = MessageInitShape<typeof CreateSessionRequestSchema>;

export async function sessionByRest(
  url: string,
  { tenantId, clientId, clientSecret, requestedScopes }: SessionAsk,
  headers: Readonly<Record<string, string>> = {},
): Promise<SessionOutcome> {
  const { body, headers: answered } = await rest(url + sessionRestPath, {
    body: {
      tenant_id: tenantId,
      client_id: clientId,
      client_secret: clientSecret,
      ...(requestedScopes !== undefined && { requested_scopes: requestedScopes }),
    },
    headers,
  });
  if (body.error !== undefined) {
    const { reason, message } = body.error;
    return { reason, message, retryAfter: answered.get("retry-after") ?? undefined };
  }
  const { access_token, token_type, expires_in, scope, tenant_id, client_id, subject, ...others } = body;
  if (Object.keys(others).length > 0) throw new Error("the answer has members that it should not have");
  return {
    token: access_token,
    tokenType: token_type,
    expiresIn: expires_in,
    scope,
    tenantId: tenant_id,
    clientId: client_id,
    subject,
  };
}

export async function sessionByGrpc(
  url: string,
  ask: SessionAsk,
  headers: Readonly<Record<string, string>> = {},
): Promise<SessionOutcome> {
  const session = await h2Connect(url);
  try {
    const { trailers, body } = await h2Call(session, {
      path: sessionRpcPath,
      headers: { "content-type": "application/grpc", ...headers },
      body: frame(toBinary(CreateSessionRequestSchema, create(CreateSessionRequestSchema, ask))),
    });
    const refusal = refusalInTrailers(trailers);
    if (refusal !== undefined) {
      const { reason, message, retryAfterSeconds } = refusal;
      return { reason, message, retryAfter: retryAfterSeconds === undefined ? undefined : String(retryAfterSeconds) };
    }
    const {
      accessToken: token,
      $typeName: _,
      $unknown: __,
      ...answer
    } = fromBinary(CreateSessionResponseSchema, body.subarray(5));
    return { token, ...answer };
  } finally {
    await h2Close(session);
  }
}

/** Both ways of asking, for tests of each. */
export const sessionCallers = [
  ["REST", sessionByRest],
  ["gRPC", sessionByGrpc],
] as const;

/** PEM of a new key, private or public. */
export function newSessionKey(type: "ed25519" | "ec" = "ed25519"): { readonly own: string; readonly shown: string } {
  const { privateKey, publicKey } =
    type === "ec" ? generateKeyPairSync("ec", { namedCurve: "P-256" }) : generateKeyPairSync("ed25519");
  return {
    own: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    shown: publicKey.export({ format: "pem", type: "spki" }).toString(),
  };
}

/** The cheapest hash that a service takes: a deployment's own costs five times as much for each session. */
function cheapHash(secret: string): SecretHash {
  const [salt, cost] = [randomBytes(16), { memoryKib: 7_168, passes: 1, lanes: 1 }];
  const parameters = {
    message: secret,
    nonce: salt,
    parallelism: cost.lanes,
    tagLength: 32,
    memory: cost.memoryKib,
  };
  return { ...cost, salt, hash: argon2Sync("argon2id", { ...parameters, passes: cost.passes }) };
}

export function writeClients(path: string, clients: readonly TestClient[]): void {
  const registered = clients.map(({ tenantId, clientId, scopes, attributes, secret }) => ({
    tenantId: tenantId as TenantId,
    clientId,
    scopes,
    ...(attributes !== undefined && { attributes }),
    secret: cheapHash(secret),
  }));
  replaceFile(path, formatClientFile(registered));
}

/** Starts it behind an ingress on this machine, whose `X-Forwarded-For` counts. */
export async function startSessionDeployment(
  clients: readonly TestClient[],
  env: Readonly<Record<string, string | undefined>> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), "svc-session-"));
  const [clientsPath, keyPath] = [join(folder, "clients.json"), join(folder, "session.key")];
  writeClients(clientsPath, clients);
  await writeFile(keyPath, newSessionKey().own, { mode: 0o600 });
  const settings = {
    SVC_SESSION_CLIENTS: clientsPath,
    SVC_SESSION_KEY: keyPath,
    SVC_TRUSTED_PROXIES: "127.0.0.1",
    ...env,
  };
  const gateway = await startGateway({ env: settings });
  return {
    gateway,
    /** Settings of a further gateway for the same clients, keys and store. */
    env: { ...settings, SVC_OIDC_ISSUER: gateway.issuer.url },
    clientsPath,
    keyPath,
    async stop() {
      await gateway.stop();
      await rm(folder, { recursive: true });
    },
  };
}
