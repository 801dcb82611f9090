/** The TypeScript client with certificate files that are replaced while it runs, and with tokens of the session route. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import {
  Code,
  createPlatformClient,
  createRestTransport,
  PlatformError,
  sessionTokens,
  type TokenProvider,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient, type TlsOptions } from "../../clients/typescript/src/node.ts";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import { askOf, startSessionDeployment, testClient } from "../harness/sessions.ts";

const folder = folderForFile("client-tls");
const servers = await createAuthority(folder, "servers");
const workloads = await createAuthority(folder, "workloads");
const server = await servers.issue("server", undefined, "IP:127.0.0.1");
const client = testClient({ scopes: ["platform-api.access", "policy.read"] });

const at = (name: string) => join(folder, name);
const put = (name: string, text: string) => replaceFile(at(name), text);
const putPair = ({ cert, key }: IssuedCertificate) => {
  put("cert", cert);
  put("key", key);
};
const files = (): TlsOptions => ({ caFile: at("ca"), certFile: at("cert"), keyFile: at("key") });

for (const [name, text] of Object.entries({ "server.crt": server.cert, "server.key": server.key })) put(name, text);
put("ca", servers.cert);
put("workloads", workloads.cert);
const deployment = await forFile(
  startSessionDeployment([client], {
    SVC_TRUSTED_PROXIES: undefined,
    SVC_PROOF_OF_POSSESSION: "mtls",
    SVC_TLS_CERT: at("server.crt"),
    SVC_TLS_KEY: at("server.key"),
    SVC_TLS_CLIENT_CA: at("workloads"),
  }),
);
beforeEach(async () => putPair(await workloads.issue("first")));

function tokensOf(tls: TlsOptions, overrides: Partial<Parameters<typeof sessionTokens>[0]> = {}): TokenProvider {
  const http = createHttpClient({ tls });
  return sessionTokens({ baseUrl: deployment.gateway.url, ...askOf(client), http, ...overrides });
}

/** A client over each transport, which makes no call again by itself. */
const transports = {
  gRPC(tls: TlsOptions, tokens: TokenProvider) {
    const interceptors = workloadInterceptors({ tokens, retry: false });
    const transport = createGrpcTransport({ baseUrl: deployment.gateway.url, tls, interceptors });
    onTestFinished(() => transport.close());
    return createPlatformClient(transport);
  },
  REST(tls: TlsOptions, tokens: TokenProvider) {
    const interceptors = workloadInterceptors({ tokens, retry: false });
    const http = createHttpClient({ tls });
    return createPlatformClient(createRestTransport({ baseUrl: deployment.gateway.url, http, interceptors }));
  },
};

/** The certificate of a token, as it says it. */
const boundTo = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()).cnf["x5t#S256"];

describe.each(Object.entries(transports))("over %s", (_name, connect) => {
  test("a certificate replaced between token and call costs the call one more attempt", async () => {
    const tokens = tokensOf(files());
    const next = await workloads.issue("next");
    let asked = 0;
    const { discovery } = connect(files(), {
      async token(signal) {
        const token = await tokens.token(signal);
        if (asked++ === 0) putPair(next);
        return token;
      },
      refused: (token) => tokens.refused(token),
    });
    expect((await discovery.whoAmI({})).caller?.principalId).toBe(client.clientId);
    expect(boundTo(await tokens.token())).toBe(next.thumbprint);
    // Where nothing was replaced, the refusal stands.
    const stranger = connect(files(), { token: () => Promise.resolve(boundElsewhere), refused() {} });
    const boundElsewhere = await tokens.token();
    putPair(await workloads.issue("stranger"));
    await expect(stranger.discovery.whoAmI({})).rejects.toMatchObject({ reason: "proof_of_possession_failed" });
  });

  test("files that are half replaced, empty or missing change nothing", async () => {
    const { discovery } = connect(files(), tokensOf(files()));
    const isAnswered = async () => (await discovery.whoAmI({})).caller?.principalId === client.clientId;
    expect(await isAnswered()).toBe(true);
    put("cert", (await workloads.issue("other")).cert);
    expect(await isAnswered()).toBe(true);
    put("cert", "");
    expect(await isAnswered()).toBe(true);
    rmSync(at("key"));
    expect(await isAnswered()).toBe(true);
    putPair(await workloads.issue("another"));
    expect(await isAnswered()).toBe(true);
  });

  test("replaced authorities take effect with the next connection", async () => {
    onTestFinished(() => put("ca", servers.cert));
    put("ca", (await createAuthority(folder, "others")).cert);
    const tls = files();
    const { discovery } = connect(tls, tokensOf(tls));
    await expect(discovery.whoAmI({})).rejects.toMatchObject({ code: Code.Unavailable });
    put("ca", servers.cert);
    expect((await discovery.whoAmI({})).caller?.authSource).toBe("session_token");
  });
});

test("settings that can never work are refused at once", async () => {
  expect(() => createHttpClient({ tls: { cert: "", certFile: at("cert") } })).toThrow("cert and certFile");
  expect(() => createHttpClient({ tls: { certFile: at("cert") } })).toThrow("not a pair");
  expect(() => createHttpClient({ tls: { caFile: at("missing") } })).toThrow("missing");
  put("cert", (await workloads.issue("stranger")).cert);
  const connect = () => createGrpcTransport({ baseUrl: deployment.gateway.url, tls: files() });
  expect(connect).toThrow("not a pair");
});

describe("a session", () => {
  const refusalOf = async (overrides: Parameters<typeof tokensOf>[1]) =>
    PlatformError.from(
      await tokensOf(files(), overrides)
        .token()
        .catch((error: unknown) => error),
    );

  test("is kept, shared by concurrent calls, and requested again when the service refuses its token", async () => {
    let asked = 0;
    const http = createHttpClient({ tls: files() });
    const counting = Object.assign((...request: Parameters<typeof http>) => {
      asked++;
      return http(...request);
    }, http);
    const tokens = tokensOf({}, { http: counting, scopes: ["policy.read"] });
    const [one, same] = await Promise.all([tokens.token(), tokens.token()]);
    expect([same, await tokens.token(), asked]).toEqual([one, one, 1]);
    tokens.refused(one);
    expect(await tokens.token()).not.toBe(one);
    expect(asked).toBe(2);
  });

  test.each([
    ["a wrong secret", { clientSecret: "wrong" }, Code.Unauthenticated, "invalid_client"],
    ["a request beyond the contract", { clientId: "" }, Code.InvalidArgument, "invalid_request"],
  ])("%s is reported with the service's reason", async (_what, overrides, code, reason) => {
    expect(await refusalOf(overrides)).toMatchObject({ code, reason, requestId: expect.any(String) });
  });

  test("that does not arrive in time is abandoned, and requested again", async () => {
    let isSilent = true;
    const http = createHttpClient({ tls: files() });
    const silent: typeof http = (request) =>
      isSilent
        ? new Promise((_, reject) => request.signal?.addEventListener("abort", () => reject(request.signal?.reason)))
        : http(request);
    const tokens = tokensOf({}, { http: silent, timeoutMs: 1_000 });
    await expect(tokens.token()).rejects.toMatchObject({ code: Code.Unavailable, rawMessage: /within 1000 ms/ });
    isSilent = false;
    await expect.poll(() => tokens.token()).not.toBe("");
  });
});
