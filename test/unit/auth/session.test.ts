/** The service's own tokens: their keys, what verifies them, and that nothing of another issuer passes for one. */

import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseSessionKeys } from "../../../src/auth/session-tokens.ts";
import { callerAddress } from "../../../src/auth/trusted-ingress.ts";
import { startStaticIssuer } from "../../harness/issuer.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { claimsOf, mintToken, newTestKey, type TestKey } from "../../harness/tokens.ts";
import { bearer, inboundOf, manualTime, networksOf, patient, refusalOf, startedWorld } from "./world.ts";

const own = newTestKey("EdDSA", "unused");
const next = newTestKey("ES256", "unused");
const privatePem = ({ privateKey }: TestKey) => privateKey.export({ format: "pem", type: "pkcs8" }).toString();
const publicPem = ({ publicKey }: TestKey) => publicKey.export({ format: "pem", type: "spki" }).toString();
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "pem", type: "pkcs8" });
const sec1 = next.privateKey.export({ format: "pem", type: "sec1" }).toString();
const p384 = privatePem(newTestKey("ES384", "unused"));

describe("the key file", () => {
  test("signs with its first key, verifies with all, and publishes no private half", async () => {
    const { signing, published } = await parseSessionKeys(`${privatePem(own)}\n${publicPem(next)}`);
    expect(signing).toMatchObject({ alg: "EdDSA", kid: published.keys[0]?.kid });
    expect(published.keys.map(({ alg }) => alg)).toEqual(["EdDSA", "ES256"]);
    expect(new Set(published.keys.map(({ kid }) => kid)).size).toBe(2);
    const { published: both } = await parseSessionKeys(privatePem(next) + privatePem(own));
    for (const key of [...published.keys, ...both.keys]) expect(key).not.toHaveProperty("d");
    expect(both.keys.map(({ kid }) => kid).reverse()).toEqual(published.keys.map(({ kid }) => kid));
  });

  test.each<[string, string, string]>([
    ["nothing", "", "holds no key"],
    ["a public key first", publicPem(own) + privatePem(next), "must begin with a private key"],
    ["a key twice", privatePem(own) + publicPem(own), "holds a key twice"],
    ["an RSA key", rsa.toString(), "neither P-256 nor Ed25519"],
    ["a key on another curve", p384, "neither P-256 nor Ed25519"],
    ["a block that would be skipped", privatePem(own) + sec1, "holds a block that is neither"],
    ["a damaged key", privatePem(own).replace(/\nM/, "\nX"), "does not parse"],
  ])("with %s is refused", async (_name, pem, problem) => {
    await expect(parseSessionKeys(pem)).rejects.toThrow(problem);
  });
});

test("a token of one issuer is refused by the other", async () => {
  const time = manualTime();
  const foreign = newTestKey("ES256", "foreign");
  const issuer = await forTest(startStaticIssuer([foreign.publicJwk]));
  const keys = { current: await parseSessionKeys(privatePem(own)), revision: 0 };
  const name = "https://api.example";
  const session = { issuer: name, audience: "api://svc-platform-api", keys };
  const authenticator = await startedWorld(issuer.url, time, { session });
  const { kid } = keys.current.signing;
  const signedByUs = { ...own, kid };
  const wrong = [
    // The token issuer's key under our name, with its own key id and with ours.
    mintToken(foreign, claimsOf(name, time.now())),
    mintToken({ ...foreign, kid }, claimsOf(name, time.now())),
    // Our key under the issuer's name, and under none, and under another.
    mintToken(signedByUs, claimsOf(issuer.url, time.now())),
    mintToken(signedByUs, claimsOf(issuer.url, time.now(), { iss: undefined })),
    mintToken(signedByUs, claimsOf("https://other.example", time.now())),
    // Two names, and ours nearly.
    mintToken(signedByUs, claimsOf(name, time.now(), { iss: [name, issuer.url] })),
    mintToken(signedByUs, claimsOf(`${name}/`, time.now())),
  ];
  for (const token of wrong) {
    const { reason } = await refusalOf(authenticator.authenticate(bearer(token), patient));
    expect(reason).toBe("invalid_token");
  }
});

describe("the address that attempts are counted under", () => {
  const networks = networksOf("10.0.0.0/8", "127.0.0.1");
  const ingress = { networks, certificates: [] };
  const from = (remoteAddress: string, ...forwarded: string[]) =>
    callerAddress(inboundOf({ "x-forwarded-for": forwarded }, { remoteAddress }), ingress);

  test.each<[string, string[], string]>([
    ["192.0.2.1", [], "192.0.2.1"],
    ["::ffff:192.0.2.1", [], "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"],
    ["2001:db8:1:2:ffff::", [], "2001:db8:1:2::/64"],
    ["", [], ""],
    // Not the ingress: what it says of itself is nothing.
    ["192.0.2.1", ["198.51.100.1"], "192.0.2.1"],
    ["10.0.0.1", ["198.51.100.1"], "198.51.100.1"],
    ["10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"],
    ["10.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"],
    ["10.0.0.1", ["203.0.113.9, 198.51.100.1, 10.0.0.2 ,127.0.0.1"], "198.51.100.1"],
    ["10.0.0.1", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"],
    ["10.0.0.1", [], "10.0.0.1"],
    ["10.0.0.1", ["10.0.0.2"], "10.0.0.1"],
    ["10.0.0.1", ["198.51.100.1:65535, 10.0.0.2:443"], "198.51.100.1"],
    ["10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"],
    // What is no address counts as the ingress, whatever stands before it.
    ...[
      "unknown",
      "",
      "_hidden:1",
      "198.51.100",
      "0x7f.1",
      "198.51.100.1:",
      "198.51.100.1:x",
      "[198.51.100.1]:5",
      "fe80::1%eth0",
    ].map((entry): [string, string[], string] => ["10.0.0.1", [`203.0.113.9, ${entry}`], "10.0.0.1"]),
  ])("from %j with %j is %j", (remoteAddress, forwarded, address) => {
    expect(from(remoteAddress, ...forwarded)).toBe(address);
  });

  test("is equal for every spelling of the header, and never the empty one", () => {
    const written = fc.oneof(
      fc.ipV4().map((address) => [address, address, `${address}:443`]),
      fc
        .ipV6()
        .filter((it) => !it.includes("."))
        .map((address) => [address, `[${address}]`, `[${address}]:443`]),
    );
    fc.assert(
      fc.property(written, ([plain = "", ...others]) => {
        const expected = from("10.0.0.1", plain);
        for (const other of others) expect(from("10.0.0.1", other)).toBe(expected);
      }),
    );
    fc.assert(fc.property(fc.string(), (entry) => from("10.0.0.1", entry) !== ""));
  });

  test("is taken from the ingress with the pinned certificate only", () => {
    const pinned = { networks, certificates: [Buffer.alloc(32)] };
    const inbound = inboundOf({ "x-forwarded-for": "198.51.100.1" }, { remoteAddress: "10.0.0.1" });
    expect(callerAddress(inbound, pinned)).toBe("10.0.0.1");
  });
});
