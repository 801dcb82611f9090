/** The shipped ingress configurations: a real nginx in front of a real gateway, and in front of one that only looks. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { cp, readFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import type { IncomingHttpHeaders } from "node:http2";
import http2 from "node:http2";
import net from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { identityHeaderNames } from "../../src/auth/authenticator.ts";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { folderForFile, writeFiles } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { freePort } from "../harness/loopback.ts";
import { plainListener } from "../harness/plain-listener.ts";
import { startProgram } from "../harness/process.ts";
import { type TlsIdentity, whoamiByGrpc, whoamiByRest } from "../harness/tls-callers.ts";
import { requireTool } from "./tools.ts";

const certificateHeader = "x-svc-mtls-client-certificate";
const identity = identityHeaderNames("x-svc-");
const forged = {
  [identity.tenant]: "tenant-forged",
  [identity.principal]: "forged",
  [identity.subject]: "forged",
  [identity.scopes]: "platform-api.access",
};
const protocols = [
  ["REST", whoamiByRest],
  ["gRPC", whoamiByGrpc],
] as const;

const folder = folderForFile("ingress");
const servers = await createAuthority(folder, "servers");
const callers = await createAuthority(folder, "callers");
const ingressServer = await servers.issue("ingress-server", "/CN=ingress", "IP:127.0.0.1");
const payroll = await callers.issue("payroll", "/O=tenant-a/CN=payroll-service");
const thief = await callers.issue("thief", "/O=tenant-b/CN=thief");
const strangers = await createAuthority(folder, "strangers");
const stranger = await strangers.issue("stranger", "/O=tenant-a/CN=payroll-service");

const as = (own?: IssuedCertificate): TlsIdentity => ({ ca: servers.cert, cert: own?.cert, key: own?.key });

/** Status of a call to the plaintext gateway from an address of this machine. */
async function statusFrom(localAddress: string, url: string, headers: Record<string, string>): Promise<number> {
  const outgoing = request(`${url}/v1/sdk/whoami`, { localAddress, headers, agent: false }).end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  return response.statusCode ?? 0;
}

describe("tokens bound to the certificate that the ingress forwards", async () => {
  const clients = [{ ...defaultClient(), certificateBound: true }];
  const gateway = await gatewayForFile({
    issuer: { clients, certificateOf: () => new X509Certificate(payroll.cert) },
    env: {
      SVC_PROOF_OF_POSSESSION: "mtls",
      SVC_TRUSTED_PROXIES: "127.0.0.1",
      SVC_FORWARDED_CERT_FORMAT: "pem",
    },
  });
  const token = await gateway.token();
  const { url } = await forFile(nginx(".", new URL(gateway.url).host));

  describe.each(protocols)("%s", (_name, whoami) => {
    const call = (own: IssuedCertificate | undefined, headers: Record<string, string> = {}) =>
      whoami(url, as(own), { authorization: `Bearer ${token}`, ...headers });

    test("the owner is accepted", async () => {
      expect(await call(payroll)).toEqual({ tenant: "tenant-a", source: "bearer_token" });
    });

    test("a thief with another certificate, or none, is refused", async () => {
      expect(await call(thief)).toEqual({ reason: "proof_of_possession_failed" });
      expect(await call(undefined)).toEqual({ reason: "proof_of_possession_failed" });
    });

    test("a thief that forges the owner's header is refused", async () => {
      for (const name of [certificateHeader, certificateHeader.toUpperCase()]) {
        for (const value of [payroll.thumbprint, encodeURIComponent(payroll.cert)]) {
          const refused = { reason: "proof_of_possession_failed" };
          expect(await call(thief, { [name]: value })).toEqual(refused);
          expect(await call(undefined, { [name]: value })).toEqual(refused);
        }
      }
    });

    test("a certificate of another authority is refused", async () => {
      expect(await call(stranger)).toEqual({ reason: expect.stringMatching(/400|ECONNRESET|HTTP 400/) });
    });

    test("identity headers from outside are removed", async () => {
      expect(await call(payroll, forged)).toEqual({ tenant: "tenant-a", source: "bearer_token" });
      expect(await whoami(url, as(payroll), forged)).toEqual({ reason: "missing_token" });
    });
  });

  test("the header is ignored from an address other than the ingress", async () => {
    const headers = { authorization: `Bearer ${token}`, [certificateHeader]: encodeURIComponent(payroll.cert) };
    expect(await statusFrom("127.0.0.1", gateway.url, headers)).toBe(200);
    expect(await statusFrom("127.0.0.2", gateway.url, headers)).toBe(401);
    expect(gateway.logged.join("")).toContain("forwarded certificate of an untrusted peer ignored");
  });

  test("the gateway logs neither token nor certificate", () => {
    const logged = gateway.logged.join("");
    expect(logged).toContain("proof_of_possession_failed");
    expect(logged).not.toContain(token.split(".")[1]);
    for (const { cert, thumbprint } of [payroll, thief]) {
      expect(logged).not.toContain(cert.split("\n")[2]);
      expect(logged).not.toContain(thumbprint);
    }
  });
});

describe("identity that the ingress names", async () => {
  const hop = await createAuthority(folder, "hop");
  const ingress = await hop.issue("ingress", "/CN=ingress");
  const neighbour = await hop.issue("neighbour", "/CN=neighbour");
  const server = await servers.issue("gateway", "/CN=gateway", "DNS:gateway.internal,IP:127.0.0.1");
  const gateway = await gatewayForFile({
    env: {
      SVC_AUTH_MODE: "trusted_headers",
      SVC_TRUSTED_PROXIES: "127.0.0.1",
      SVC_TRUSTED_PROXY_CERTIFICATES: ingress.thumbprint,
      SVC_TLS_CERT: server.certFile,
      SVC_TLS_KEY: server.keyFile,
      SVC_TLS_CLIENT_CA: hop.certFile,
    },
  });
  const files = { "ingress.crt.pem": ingress.cert, "ingress.key.pem": ingress.key, "gateway-ca.crt.pem": servers.cert };
  const { url } = await forFile(nginx("trusted-headers", new URL(gateway.url).host, files));

  describe.each(protocols)("%s", (_name, whoami) => {
    test("a caller of the table is accepted with the table's identity, whatever it sends", async () => {
      const expected = { tenant: "tenant-a", source: "trusted_headers" };
      expect(await whoami(url, as(payroll), {})).toEqual(expected);
      expect(await whoami(url, as(payroll), { ...forged, authorization: "Bearer abc" })).toEqual(expected);
    });

    test("other callers are refused", async () => {
      expect(await whoami(url, as(thief), forged)).toEqual({ reason: "missing_token" });
      expect(await whoami(url, as(), forged)).toEqual({ reason: "missing_token" });
    });

    test("headers from the ingress's address are ignored without its certificate", async () => {
      expect(await whoami(gateway.url, as(ingress), forged)).toHaveProperty("tenant", "tenant-forged");
      for (const own of [neighbour, thief, undefined]) {
        expect(await whoami(gateway.url, as(own), forged)).toEqual({ reason: "missing_token" });
      }
      expect(gateway.logged.join("")).toContain("identity headers of an untrusted peer ignored");
    });
  });
});

describe.each([
  [".", "plaintext"],
  ["trusted-headers", "TLS"],
] as const)("%s", async (example, hop) => {
  const seen: IncomingHttpHeaders[] = [];
  const hopAuthority = await createAuthority(folder, `looking-${hop}`);
  const server = await hopAuthority.issue(`looking-server-${hop}`, "/CN=gateway", "DNS:gateway.internal");
  const own = await hopAuthority.issue(`looking-ingress-${hop}`, "/CN=ingress");
  const listener = plainListener(
    (request, response) => {
      seen.push(request.headers);
      const grpc = request.httpVersionMajor === 2;
      response.writeHead(200, { "content-type": grpc ? "application/grpc" : "application/json", "grpc-status": "0" });
      response.end();
    },
    hop === "TLS" ? { cert: server.cert, key: server.key, clientCa: hopAuthority.cert } : undefined,
  );
  const { port } = await listener.listen("127.0.0.1", 0);
  await forFile({ stop: () => listener.close(0) });
  const files = { "ingress.crt.pem": own.cert, "ingress.key.pem": own.key, "gateway-ca.crt.pem": hopAuthority.cert };
  const { url } = await forFile(nginx(example, `127.0.0.1:${port}`, files));

  test.each([
    ["/v1/sdk/evidence", "application/json"],
    ["/platform.sdk.v1.EvidenceService/RecordEvidence", "application/json"],
    ["/platform.sdk.v1.EvidenceService/RecordEvidence", "application/grpc-web"],
    ["/platform.sdk.v1.EvidenceService/RecordEvidence", "application/grpc"],
    ["/platform.sdk.v1.EvidenceService/RecordEvidence", "application/grpc+proto"],
  ])("to %s as %s only the ingress may name an identity, and the caller's own headers arrive", async (path, type) => {
    const names = [...Object.values(identity), certificateHeader];
    const own = { "x-svc-receipt": "brief", dpop: "a proof", "idempotency-key": "a key", "x-request-id": "an id" };
    const outside = Object.fromEntries([...names, "x-forwarded-for"].map((name) => [name, ["forged", "forged"]]));
    seen.length = 0;
    const session = http2.connect(url, { ca: servers.cert, cert: thief.cert, key: thief.key });
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": type, ...outside, ...own });
    stream.end("12345");
    stream.resume();
    await once(stream, "end");
    session.close();
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject(own);
    for (const name of names) expect(seen[0]?.[name] ?? "").not.toContain("forged");
    const certificate = example === "." ? encodeURIComponent(thief.cert) : undefined;
    expect(seen[0]?.[certificateHeader]).toBe(certificate);
    expect(seen[0]?.["x-forwarded-for"]).toBe("127.0.0.1");
  });
});

/**
 * Starts a real nginx with one of the example configurations, changed in nothing but addresses and files, and resolves
 * once it accepts connections. Rejects with what it printed if it does not start.
 *
 * @param upstream `host:port` of what stands behind it
 * @param tls PEM texts by their file name below `tls/`
 */
async function nginx(example: string, upstream: string, tls: Readonly<Record<string, string>> = {}) {
  const port = await freePort();
  const own = join(folder, `nginx-${port}`);
  await cp(join(import.meta.dirname, "../../examples/ingress", example), own, { recursive: true });
  const configuration = await readFile(join(own, "nginx.conf"), "utf8");
  writeFiles(own, { "nginx.conf": adapt(configuration, port, upstream) });
  const { cert, key } = ingressServer;
  const all = { "server.crt.pem": cert, "server.key.pem": key, "client-ca.crt.pem": callers.cert, ...tls };
  writeFiles(join(own, "tls"), all);
  const accepts = async () => {
    const socket = net.connect(port, "127.0.0.1");
    await once(socket, "connect").finally(() => socket.destroy());
  };
  const args = ["-p", own, "-c", "nginx.conf", "-g", "daemon off;"];
  const { stop } = await startProgram(requireTool("nginx"), args, accepts);
  return { url: `https://127.0.0.1:${port}`, stop };
}

/** The configuration with the test's addresses, and folders that need no rights. */
function adapt(configuration: string, port: number, upstream: string): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path tmp-${name};`,
  );
  const changes: readonly [RegExp, string][] = [
    [/listen 443 ssl/g, `listen 127.0.0.1:${port} ssl`],
    [/server 127\.0\.0\.1:\d+;/g, `server ${upstream};`],
    [/^http \{/m, `http {\n${temporary.join("\n")}`],
  ];
  return changes.reduce((text, [pattern, by]) => {
    if (text.search(pattern) < 0) throw new Error(`the configuration has no ${pattern}`);
    return text.replace(pattern, by);
  }, configuration);
}
