/**
 * The TypeScript package in a real browser, bundled by two bundlers. The service sends no CORS headers, so the page is
 * served as a deployment would: from a server of its own, which passes calls on to the service, and adds its client's
 * secret to the page's own request for a token. Tokens are bound to a key that never leaves the page.
 */
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultClient, type IssuerClient } from "../../dev/issuer.ts";
import { browserForFile } from "../harness/browser.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { logKeyOf } from "../harness/ledger.ts";
import { forTest } from "../harness/lifetimes.ts";
import { listenOnLoopback } from "../harness/loopback.ts";
import { bundlerNames, installClient } from "./clients-typescript-archive.ts";

const timeout = 300_000;
const workload: IssuerClient = { ...defaultClient(), dpopBound: true };
const { bundle } = await installClient(folderForFile("clients-browser"));
const gateway = await gatewayForFile({ issuer: { clients: [workload] }, env: { SVC_PROOF_OF_POSSESSION: "dpop" } });
const openPage = await browserForFile();

/** The page's program: what it finds out is left on the page. */
const program = `
  import { ArtifactKind, ArtifactProfile, createDpop, createPlatformClient, createRestTransport, EvidenceEventType,
    PlatformError, ProtectionOperation, workloadInterceptors } from "svc-platform-client";
  import { ReceiptError, verifyReceipt } from "svc-platform-client/receipts";

  const dpop = createDpop();
  const tokens = {
    async token() {
      const url = document.documentElement.dataset.tokenEndpoint;
      const headers = { dpop: await dpop.proof({ method: "POST", url }) };
      return (await (await fetch("/token", { method: "POST", headers })).json()).access_token;
    },
    refused() {},
  };
  const interceptors = workloadInterceptors({ tokens, dpop });
  const client = createPlatformClient(createRestTransport({ baseUrl: location.origin, interceptors }));
  const about = { workload: { application: "payroll-page" }, resource: { kind: "customer-record", id: "cust-8841" } };
  let receipt;

  globalThis.calls = async () => {
    const { caller } = await client.discovery.whoAmI({});
    const { routes } = await client.capabilities();
    const { decision } = await client.protection.planProtection({ ...about, operation: ProtectionOperation.PROTECT });
    const refusal = await client.protection.planProtection({}).catch((error) => error);
    const artifact = { ...about, artifactKind: ArtifactKind.DATA_OBJECT, artifactProfile: ArtifactProfile.ENVELOPE,
      artifactDigest: "sha256:" + "2c26b46b68ffc68f".repeat(4), decisionId: decision.decisionId };
    const { ingestion } = await client.evidence.recordEvidence({ ...artifact, outcome: "completed",
      eventType: EvidenceEventType.PROTECT, occurredAt: new Date().toISOString() });
    receipt = ingestion.receipt;
    return {
      principal: caller.principalId,
      routes: routes.length,
      allow: decision.allow,
      refusal: [refusal instanceof PlatformError, refusal.reason, refusal.violations.map(({ field }) => field)],
      accepted: ingestion.accepted,
      logOrigin: receipt.logOrigin,
    };
  };
  globalThis.verify = async (logKey) => {
    try {
      return (await verifyReceipt(receipt, logKey)).record.kind;
    } catch (error) {
      return error instanceof ReceiptError ? "refused: " + error.message : String(error);
    }
  };
`;

/** Serves the page, its program, tokens, and the service's routes, all on one origin. */
async function servePage(path: string): Promise<string> {
  const script = await readFile(path);
  const html = `<!doctype html><html data-token-endpoint="${gateway.issuer.tokenEndpoint}"><link rel="icon" href="data:,">
    <script type="module" src="/program.js"></script></html>`;
  const server = createServer((incoming, outgoing) => {
    const { url = "" } = incoming;
    if (url === "/token") void passTokenRequest(incoming, outgoing);
    else if (url.startsWith("/v1/")) pass(incoming, outgoing);
    else {
      outgoing.setHeader("content-type", url === "/" ? "text/html" : "text/javascript");
      outgoing.setHeader(
        "content-security-policy",
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:",
      );
      outgoing.end(url === "/" ? html : script);
    }
  });
  const { port } = await forTest(listenOnLoopback(server));
  return `http://127.0.0.1:${port}`;
}

function pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { method, headers, url = "" } = incoming;
  const onward = request(new URL(url, gateway.url), { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  });
  onward.on("error", () => outgoing.destroy());
  incoming.pipe(onward);
}

async function passTokenRequest({ headers }: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { clientId, clientSecret, scopes } = workload;
  const answer = await fetch(gateway.issuer.tokenEndpoint, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${clientId}:${clientSecret}`)}`, dpop: String(headers.dpop) },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: scopes.join(" ") }),
  });
  outgoing.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
}

describe.each(bundlerNames)("bundled by %s", (bundler) => {
  test("makes calls with proofs of its key, reads a refusal, and verifies a receipt", { timeout }, async () => {
    const url = await servePage(await bundle(bundler, "page", program));
    const { page, requests, complaints } = await openPage();
    await page.goto(url);
    const said = (await page.evaluate("calls()")) as { readonly logOrigin: string };
    expect(said).toMatchObject({
      principal: "payroll-service",
      routes: 8,
      allow: true,
      refusal: [true, "invalid_request", expect.arrayContaining(["workload"])],
      accepted: true,
    });
    const verdict = (origin: string) => {
      const key = logKeyOf(join(gateway.dataDir, "ledger.key"), origin);
      return page.evaluate(`verify(${JSON.stringify(key)})`);
    };
    expect(await verdict(said.logOrigin)).toBe("evidence");
    expect(await verdict(`${said.logOrigin}x`)).toMatch(/^refused: /);
    expect(requests.filter((asked) => !asked.startsWith(`${url}/`) && !asked.startsWith("data:"))).toEqual([]);
    // The one refusal that was asked for; nothing that the content security policy stopped.
    expect(complaints.filter((text) => !text.includes("400 (Bad Request)"))).toEqual([]);
  });
});

test("the service itself permits no page of another origin", async () => {
  const preflight = { origin: "https://elsewhere.example", "access-control-request-method": "POST" };
  const answer = await fetch(`${gateway.url}/v1/sdk/protection-plan`, { method: "OPTIONS", headers: preflight });
  expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
});
