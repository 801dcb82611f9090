/**
 * A real OpenID Connect issuer on loopback for development and tests: client-credentials grant, JWT access tokens (RFC
 * 9068) for one audience, tenant-scoped confidential clients, keys that can be rotated while it runs, and tokens bound
 * to a certificate (RFC 8705) or to a DPoP key (RFC 9449).
 */
import { randomBytes, type X509Certificate } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { TLSSocket } from "node:tls";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";
import type { Adapter, AdapterPayload, ClientMetadata, Configuration, ResourceServer } from "oidc-provider";
// The package's index prints a warning on Node releases that are not LTS; this is the module that it re-exports.
import { Provider } from "oidc-provider/lib/provider.js";

/** Algorithms that the issuer signs with. */
export type IssuerAlgorithm = "RS256" | "PS256" | "ES256" | "EdDSA";

/** A confidential client of one tenant. */
export interface IssuerClient {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly tenantId: string;
  readonly principalId: string;
  /** Scopes that it may request; a token carries the requested ones among these. */
  readonly scopes: readonly string[];
  /** Whether its tokens are bound to the TLS client certificate of the token request. Default false. */
  readonly certificateBound?: boolean;
  /** Whether its token requests must carry a DPoP proof, whose key its tokens are bound to. Default false. */
  readonly dpopBound?: boolean;
}

/** Sign-in of people by authorization code with PKCE. */
export interface IssuerSignIn {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly redirectUri: string;
  /** Values of the claim `roles` of each person, by login. Others have none. */
  readonly people: Readonly<Record<string, readonly string[]>>;
}

export interface IssuerOptions {
  /** Default: any free port. */
  readonly port?: number;
  /** Default `api://svc-platform-api`. */
  readonly audience?: string;
  /** Default: one client, `payroll-service` of `tenant-a`, with every default scope and a random secret. */
  readonly clients?: readonly IssuerClient[];
  /** A client to which people sign in. Their pages take any password. */
  readonly signIn?: IssuerSignIn;
  /** Algorithm of the first key. Default RS256. */
  readonly algorithm?: IssuerAlgorithm;
  /** Lifetime of an access token, in seconds. Default 300. */
  readonly tokenLifetimeSeconds?: number;
  /**
   * PEM key and certificate. If set, the issuer serves https and requests a client certificate without requiring or
   * verifying it.
   */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Where the client certificate of a token request comes from. Default: its TLS session. */
  readonly certificateOf?: (request: IncomingMessage) => X509Certificate | undefined;
}

export interface Issuer {
  /** Issuer identifier, such as `http://127.0.0.1:4000`. */
  readonly url: string;
  readonly tokenEndpoint: string;
  readonly audience: string;
  readonly clients: readonly IssuerClient[];
  /** Publishes a new key and signs with it from now on; older keys stay published. Returns its `kid`. */
  addKey(algorithm: IssuerAlgorithm): Promise<string>;
  /** Stops publishing a key. The newest remaining key signs; the last one cannot be withdrawn. */
  withdrawKey(kid: string): void;
  /** Ids of the published keys, oldest first. */
  keyIds(): readonly string[];
  /** Closes every connection and frees the port. */
  stop(): Promise<void>;
}

const defaultScopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];

type SigningKey = JWK & { readonly kid: string; readonly alg: IssuerAlgorithm };

/** Starts the issuer on 127.0.0.1. Rejects if the port is taken. */
export async function startIssuer(options: IssuerOptions = {}): Promise<Issuer> {
  const clients = options.clients ?? [defaultClient()];
  const audience = options.audience ?? "api://svc-platform-api";
  const keys: SigningKey[] = [await newKey(options.algorithm ?? "RS256")];
  let handle: RequestListener = (_request, response) => response.writeHead(503).end();
  const listener: RequestListener = (request, response) => handle(request, response);
  const server =
    options.tls === undefined
      ? createServer(listener)
      : createTlsServer({ ...options.tls, requestCert: true, rejectUnauthorized: false }, listener);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = `${options.tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  // A provider's keys are fixed when it is created, and these grants keep no state in it: rotation creates a new one.
  const publish = () => {
    handle = quietly(() => new Provider(url, configure(options, audience, clients, keys)).callback());
  };
  publish();
  return {
    url,
    tokenEndpoint: `${url}/token`,
    audience,
    clients,
    async addKey(algorithm) {
      const key = await newKey(algorithm);
      keys.push(key);
      publish();
      return key.kid;
    },
    withdrawKey(kid) {
      const index = keys.findIndex((key) => key.kid === kid);
      if (index === -1) throw new Error("the issuer has no such key");
      if (keys.length === 1) throw new Error("the issuer cannot do without its last key");
      keys.splice(index, 1);
      publish();
    },
    keyIds: () => keys.map((key) => key.kid),
    stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** Without the provider's warnings that its sign-in pages are for development: this one is for nothing else. */
function quietly<T>(work: () => T): T {
  const { warn } = globalThis.console;
  globalThis.console.warn = () => {};
  try {
    return work();
  } finally {
    globalThis.console.warn = warn;
  }
}

function configure(
  options: IssuerOptions,
  audience: string,
  clients: readonly IssuerClient[],
  keys: readonly SigningKey[],
): Configuration {
  const signingKey = keys.at(-1) as SigningKey;
  const allScopes = [...new Set(clients.flatMap((client) => client.scopes))];
  const resourceServer: ResourceServer = {
    audience,
    scope: allScopes.join(" "),
    accessTokenFormat: "jwt",
    accessTokenTTL: options.tokenLifetimeSeconds ?? 300,
    jwt: { sign: { alg: signingKey.alg, kid: signingKey.kid } },
  };
  const { signIn } = options;
  return {
    adapter: signIn === undefined ? NothingStored : StoredInMemory,
    jwks: { keys: [...keys] },
    clients: [
      ...clients.map((client) => clientMetadata(client, signingKey.alg)),
      ...(signIn === undefined ? [] : [signInMetadata(signIn, signingKey.alg)]),
    ],
    ...(signIn !== undefined && signInOf(signIn)),
    scopes: signIn === undefined ? allScopes : ["openid", ...allScopes],
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
    ttl: {
      ...{ Interaction: 600, Session: 3_600, Grant: 3_600, IdToken: 300, AccessToken: 300 },
      ClientCredentials: (_context, token) => token.resourceServer?.accessTokenTTL ?? 300,
    },
    extraTokenClaims(_context, token) {
      const client = clients.find(({ clientId }) => clientId === token.clientId);
      return client === undefined ? {} : { tenant_id: client.tenantId, principal_id: client.principalId };
    },
    features: {
      devInteractions: { enabled: signIn !== undefined },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        // What people sign in to takes ID tokens only.
        defaultResource: (context) => (context.oidc.params?.grant_type === "client_credentials" ? audience : []),
        getResourceServerInfo: () => resourceServer,
      },
      dPoP: { enabled: true },
      mTLS: {
        enabled: true,
        certificateBoundAccessTokens: true,
        getCertificate: ({ req }) => (options.certificateOf ?? certificateOfSession)(req),
      },
    },
  };
}

function clientMetadata(client: IssuerClient, algorithm: IssuerAlgorithm): ClientMetadata {
  return {
    client_id: client.clientId,
    client_secret: client.clientSecret,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: "client_secret_basic",
    id_token_signed_response_alg: algorithm,
    scope: client.scopes.join(" "),
    tls_client_certificate_bound_access_tokens: client.certificateBound ?? false,
    dpop_bound_access_tokens: client.dpopBound ?? false,
  };
}

function signInMetadata(
  { clientId, clientSecret, redirectUri }: IssuerSignIn,
  algorithm: IssuerAlgorithm,
): ClientMetadata {
  return {
    client_id: clientId,
    client_secret: clientSecret,
    grant_types: ["authorization_code"],
    redirect_uris: [redirectUri],
    response_types: ["code"],
    token_endpoint_auth_method: "client_secret_basic",
    id_token_signed_response_alg: algorithm,
  };
}

/** People, whose roles are in their ID tokens, and who are not asked for consent. */
function signInOf({ people }: IssuerSignIn): Configuration {
  return {
    claims: { openid: ["sub", "roles"] },
    conformIdTokenClaims: false,
    cookies: { keys: [randomBytes(32).toString("base64url")] },
    findAccount: (_context, login) => ({
      accountId: login,
      claims: async () => ({ sub: login, roles: Object.hasOwn(people, login) ? people[login] : [] }),
    }),
    async loadExistingGrant({ oidc }) {
      const grant = new oidc.provider.Grant({
        ...(oidc.client !== undefined && { clientId: oidc.client.clientId }),
        ...(oidc.session?.accountId !== undefined && { accountId: oidc.session.accountId }),
      });
      grant.addOIDCScope("openid");
      await grant.save();
      return grant;
    },
  };
}

function certificateOfSession({ socket }: IncomingMessage): X509Certificate | undefined {
  return socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined;
}

async function newKey(algorithm: IssuerAlgorithm): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: algorithm, use: "sig" };
}

/** The issuer's client if no other is configured. */
export function defaultClient(): IssuerClient {
  return {
    clientId: "payroll-service",
    clientSecret: randomBytes(24).toString("base64url"),
    tenantId: "tenant-a",
    principalId: "payroll-service",
    scopes: defaultScopes,
  };
}

/** Clients come from the configuration and tokens are self-contained, so nothing is stored. */
class NothingStored implements Adapter {
  async upsert(): Promise<undefined> {}
  async find(): Promise<undefined> {}
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<undefined> {}
  async destroy(): Promise<undefined> {}
  async revokeByGrantId(): Promise<undefined> {}
}

/** Sessions and codes of people, while the process runs. */
class StoredInMemory implements Adapter {
  static readonly #all = new Map<string, AdapterPayload>();
  readonly #kind: string;

  constructor(kind: string) {
    this.#kind = kind;
  }

  async upsert(id: string, payload: AdapterPayload): Promise<undefined> {
    StoredInMemory.#all.set(`${this.#kind} ${id}`, payload);
    if (payload.uid !== undefined) StoredInMemory.#all.set(`${this.#kind} uid ${payload.uid}`, payload);
  }
  async find(id: string): Promise<AdapterPayload | undefined> {
    return StoredInMemory.#all.get(`${this.#kind} ${id}`);
  }
  async findByUserCode(): Promise<undefined> {}
  findByUid(uid: string): Promise<AdapterPayload | undefined> {
    return this.find(`uid ${uid}`);
  }
  async consume(id: string): Promise<undefined> {
    const payload = await this.find(id);
    if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id: string): Promise<undefined> {
    StoredInMemory.#all.delete(`${this.#kind} ${id}`);
  }
  async revokeByGrantId(): Promise<undefined> {}
}
