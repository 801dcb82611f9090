import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { bindingOf, type MutualTlsRule, type NoPossessionRule } from "../../../src/auth/confirmation.ts";
import { possessionMethod } from "../../../src/auth/possession.ts";
import type { VerifiedToken } from "../../../src/auth/token-cache.ts";
import { signatureLimits } from "../../../src/auth/token-verifier.ts";
import type { Caller } from "../../../src/base/caller.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { createFairSemaphore } from "../../../src/base/fair-queue.ts";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import type { ForwardedCertificateFormat } from "../../../src/base/vocabulary.ts";
import { inboundOf, mtlsRule, patient, refusalOf } from "./world.ts";

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}.crt.pem`, import.meta.url), "utf8");
const pem = fixture("client");
const der = new X509Certificate(pem).raw;
const otherDer = new X509Certificate(fixture("server")).raw;
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("base64url");
const thumbprint = sha256(der);
const cnf = { "x5t#S256": thumbprint };
const { headerName: header } = mtlsRule();

const mtls = (format: ForwardedCertificateFormat = "thumbprint"): MutualTlsRule => {
  return { ...mtlsRule("10.0.0.0/8", "fd00::/8"), format };
};
type Rule = MutualTlsRule | NoPossessionRule;
const proxy = "10.1.2.3";
const stranger = "192.0.2.7";
const session = (bytes: Uint8Array = der) => ({ clientCertificate: () => bytes });

async function confirm(confirmation: unknown, inbound: InboundRequest, rule: Rule = mtls()): Promise<string[]> {
  const ignored: string[] = [];
  const signatures = createFairSemaphore(signatureLimits);
  const onCertificateIgnored = (address: string) => ignored.push(address);
  const method = possessionMethod(rule, { clock: systemClock, onCertificateIgnored, signatures });
  const caller = { scopes: [] } as unknown as Caller;
  const verified: VerifiedToken = { caller, binding: bindingOf(confirmation), expiresAtMs: 0 };
  await method.confirm("token", verified, inbound, patient);
  return ignored;
}

async function failureOf(confirmation: unknown, inbound: InboundRequest, rule: Rule = mtls()): Promise<string> {
  const refusal = await refusalOf(confirm(confirmation, inbound, rule));
  expect(refusal).toMatchObject({ reason: "proof_of_possession_failed", httpStatus: 401 });
  expect(refusal.details.challenge).toContain('error="invalid_token"');
  return refusal.message;
}

const forwarded = (value: string | readonly string[], remoteAddress = proxy) =>
  inboundOf({ [header]: value }, { remoteAddress });
const base64 = der.toString("base64");
const escaped = encodeURIComponent(pem);

describe("a trusted proxy's header", () => {
  test.each<[ForwardedCertificateFormat, string, string]>([
    ["thumbprint", "as it is", thumbprint],
    ["pem", "as nginx escapes it", escaped],
    ["pem", "without the last line feed", encodeURIComponent(pem.trimEnd())],
    ["pem", "with CRLF", encodeURIComponent(pem.replaceAll("\n", "\r\n"))],
    ["der", "as RFC 9440 writes it", `:${base64}:`],
  ])("in format %s is accepted with %s", async (format, _name, value) => {
    expect(await confirm(cnf, forwarded(value), mtls(format))).toEqual([]);
  });

  test.each<[ForwardedCertificateFormat, string, string | readonly string[]]>([
    ["thumbprint", "twice", [thumbprint, thumbprint]],
    ["thumbprint", "once and empty", [thumbprint, ""]],
    ["thumbprint", "joined", `${thumbprint}, ${thumbprint}`],
    ["thumbprint", "padded", `${thumbprint}=`],
    ["thumbprint", "with a space", ` ${thumbprint}`],
    ["thumbprint", "hexadecimal", Buffer.from(thumbprint, "base64url").toString("hex")],
    ["thumbprint", "as PEM", escaped],
    ["thumbprint", "as DER", `:${base64}:`],
    ["pem", "as thumbprint", thumbprint],
    ["pem", "unescaped", pem.replaceAll("\n", " ")],
    ["pem", "a chain", encodeURIComponent(pem + pem)],
    ["pem", "text around it", encodeURIComponent(`Subject: x\n${pem}`)],
    ["pem", "broken escape", `${escaped}%`],
    ["pem", "another label", escaped.replaceAll("CERTIFICATE", "PUBLIC%20KEY")],
    ["pem", "base64url inside", encodeURIComponent(pem.replace(/[+/]/g, "_"))],
    ["der", "without colons", base64],
    ["der", "without padding", `:${base64.replace(/=+$/, "")}:`],
    ["der", "with parameters", `:${base64}:;a=1`],
    ["der", "two items", `:${base64}:, :${base64}:`],
    ["der", "nothing", "::"],
    ["der", "over 16 KiB", `:${"A".repeat(16_384)}:`],
  ])("in format %s is refused with %s", async (format, _name, value) => {
    expect(await failureOf(cnf, forwarded(value), mtls(format))).toContain("not well formed");
  });

  test("is refused if it names another certificate, or none", async () => {
    expect(await failureOf(cnf, forwarded(sha256(otherDer)))).toContain("another client certificate");
    expect(await failureOf(cnf, forwarded(""))).toContain("no valid client certificate");
    expect(await failureOf(cnf, inboundOf({}, { remoteAddress: proxy }))).toContain("no valid client certificate");
  });

  test("counts instead of the proxy's own certificate, whichever of them is the bound one", async () => {
    const own = (value: string, bytes: Uint8Array) => ({ ...forwarded(value), ...session(bytes) });
    expect(await confirm(cnf, own(thumbprint, otherDer))).toEqual([]);
    expect(await failureOf(cnf, own(sha256(otherDer), der))).toContain("another client certificate");
    expect(await failureOf(cnf, { ...inboundOf({}, { remoteAddress: proxy }), ...session() })).toContain(
      "no valid client",
    );
  });
});

describe("any other sender's header", () => {
  test.each([stranger, "11.0.0.1", "::ffff:192.0.2.7", "fe80::1%eth0", "", "unix"])(
    "from %j is ignored",
    async (address) => {
      expect(await failureOf(cnf, forwarded(thumbprint, address))).toContain("no valid client certificate");
    },
  );

  test("is reported, and the TLS session decides", async () => {
    expect(await confirm(cnf, { ...forwarded(sha256(otherDer), stranger), ...session() })).toEqual([stranger]);
  });
});
