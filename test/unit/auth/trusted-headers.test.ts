import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { callerFromHeaders, type IdentityHeaderRule, identityHeaderNames } from "../../../src/auth/authenticator.ts";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import { inboundOf, networksOf, refusalOf } from "./world.ts";

const ingressCertificate = Buffer.from("certificate of the ingress");
const pins = [createHash("sha256").update(ingressCertificate).digest()];
const ruleOf = (certificates: readonly Uint8Array[] = pins): IdentityHeaderRule => ({
  names: identityHeaderNames("x-svc-"),
  ingress: { networks: networksOf("10.0.0.0/8", "127.0.0.0/8", "::1"), certificates },
});
const identity = {
  "x-svc-tenant-id": "tenant-a",
  "x-svc-user-id": "payroll-service",
  "x-svc-subject": "CN=payroll, but of the ingress".replace(",", ""),
  "x-svc-scopes": "platform-api.access policy.read",
};
const caller = {
  tenantId: "tenant-a",
  principalId: "payroll-service",
  subject: "CN=payroll but of the ingress",
  authSource: "trusted_headers",
  scopes: ["platform-api.access", "policy.read"],
};
type Headers = Readonly<Record<string, string | readonly string[]>>;
const through = (headers: Headers, connection: Partial<InboundRequest> = {}) =>
  inboundOf(headers, { remoteAddress: "10.1.2.3", clientCertificate: () => ingressCertificate, ...connection });

/** What comes of the call: the caller, and how often an untrusted sender was reported. */
async function read(inbound: InboundRequest, rule = ruleOf()) {
  let ignored = 0;
  const outcome = async () => callerFromHeaders(inbound, rule, () => void ignored++);
  return { outcome: outcome(), ignored: () => ignored };
}
const refused = async (inbound: InboundRequest, rule?: IdentityHeaderRule) =>
  refusalOf((await read(inbound, rule)).outcome);

describe("the ingress names the caller", () => {
  test("over a connection with its pinned certificate", async () => {
    expect(await (await read(through(identity))).outcome).toEqual(caller);
  });

  test("who may have no scopes, or one of them twice", async () => {
    const scopesOf = async (scopes: string) =>
      (await (await read(through({ ...identity, "x-svc-scopes": scopes }))).outcome).scopes;
    expect(await scopesOf("")).toEqual([]);
    expect(await scopesOf("a b a")).toEqual(["a", "b"]);
  });
});

describe("no other sender names the caller", () => {
  test.each<[string, Partial<InboundRequest>, IdentityHeaderRule?]>([
    ["another address with the ingress' certificate", { remoteAddress: "192.0.2.7" }],
    ["an address of the network next door", { remoteAddress: "11.0.0.1" }],
    ["no address", { remoteAddress: "" }],
    ["the ingress' address with another certificate", { clientCertificate: () => Buffer.from("x") }],
    ["the ingress' address without one", { clientCertificate: () => undefined }],
    ["the ingress' address where no certificate is pinned", {}, ruleOf([])],
    ["loopback without the pinned one", { remoteAddress: "127.0.0.1", clientCertificate: () => undefined }],
  ])("%s", async (_name, connection, rule) => {
    const { outcome, ignored } = await read(through(identity, connection), rule);
    const refusal = await refusalOf(outcome);
    expect(refusal).toMatchObject({ reason: "missing_token", httpStatus: 401 });
    expect(refusal.details.challenge).toBe('Bearer realm="sdk"');
    expect(ignored()).toBe(1);
  });

  test("and a call without identity headers is not reported", async () => {
    const { outcome, ignored } = await read(through({}, { remoteAddress: "192.0.2.7" }));
    expect(await refusalOf(outcome)).toHaveProperty("reason", "missing_token");
    expect(ignored()).toBe(0);
  });
});

const long = "a".repeat(257);
/** Wrong in the header of an id, whichever it is. */
const noId = [[], "", ["a", "a"], ["a", ""], "a, a", "a,a", " a", "a ", "a\tb", "p\u00e4yroll", "\u043f", "a\0", long];
const wrong: Readonly<Record<keyof typeof identity, readonly (string | readonly string[])[]>> = {
  "x-svc-tenant-id": [...noId, ["tenant-a", "tenant-b"], "tenant\u2010a", "../tenant-a", "a".repeat(129)],
  "x-svc-user-id": [...noId, "a  b", "a\x7f"],
  "x-svc-subject": [...noId, "a  b"],
  "x-svc-scopes": [
    ...[[], ["a", "b"], ["", ""], "a, b", "a,b", " a", "a ", "a  b", "a\tb"],
    ...['a "b', "a\\b", "\u00e4", "a ".repeat(2100).trim()],
  ],
};

describe("refused with invalid_token, all else being well:", () => {
  test.each(Object.entries(wrong).flatMap(([name, values]) => values.map((value) => [name, value] as const)))(
    "%s %j",
    async (name, value) => {
      const refusal = await refused(through({ ...identity, [name]: value }));
      expect(refusal).toMatchObject({ reason: "invalid_token", httpStatus: 401 });
      expect(refusal.details.challenge).toContain('error="invalid_token"');
    },
  );

  test.each([["x-svc-tenant-id"], ["X-SVC-Scopes"], ["grpc-status, x-svc-user-id"], [["a", "b,x-svc-subject "]]])(
    "trailer %j is announced",
    async (trailer) => {
      expect(await refused(through({ ...identity, trailer }))).toHaveProperty("reason", "invalid_token");
    },
  );

  test("ignores unknown trailers", async () => {
    expect(await (await read(through({ ...identity, trailer: "grpc-status" }))).outcome).toEqual(caller);
  });
});
