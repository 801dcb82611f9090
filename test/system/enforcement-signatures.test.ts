/**
 * Detached signatures across programs: what the packages for TypeScript and Python sign, public verifiers take:
 * securesystemslib, sigstore-python (which knows ECDSA only) and Sigstore's verifier in JavaScript.
 */
import { createHash, generateKeyPairSync, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleFromJSON } from "@sigstore/bundle";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";
import { describe, expect, test } from "vitest";
import { pythonForFile } from "../harness/python.ts";
import { buildLanguages, languageNames, languages } from "./enforcement-languages.ts";

const program = `
import json, sys
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from sigstore import dsse

def is_taken(verify):
    try:
        verify()
        return True
    except Exception as error:
        return type(error).__name__

for line in open(sys.argv[1]):
    given = json.loads(line)
    # The first verifier empties the object that it is given.
    text = json.dumps(given["envelope"])
    public = load_pem_public_key(given["key"].encode())
    key = SSlibKey.from_crypto(public)
    key.keyid = ""
    verdicts = {"securesystemslib": is_taken(lambda: Envelope.from_dict(given["envelope"]).verify([key], 1))}
    if given["algorithm"] == "ES256":
        verdicts["sigstore"] = is_taken(lambda: dsse._verify(public, dsse.Envelope._from_json(text)))
    print(json.dumps(verdicts))
`;
const data = randomBytes(100_000);
const pairs = {
  EdDSA: generateKeyPairSync("ed25519"),
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
} as const;
type Algorithm = keyof typeof pairs;
const algorithms = Object.keys(pairs) as Algorithm[];

interface Envelope {
  readonly payload: string;
  readonly payloadType: string;
  readonly signatures: readonly [{ readonly keyid: string; readonly sig: string }];
}

buildLanguages();
const python = await pythonForFile("securesystemslib==1.6.0", "sigstore==4.5.1");
writeFileSync(join(python.folder, "data"), data);

const pemOf = (algorithm: Algorithm) => String(pairs[algorithm].publicKey.export({ type: "spki", format: "pem" }));

/** What the programs in Python say of each. */
const inPython = (envelopes: readonly Envelope[], algorithm: Algorithm, key = pemOf(algorithm)) =>
  python.judge(
    program,
    envelopes.map((envelope) => ({ envelope, key, algorithm })),
  );

/** Sigstore's verifier, for a key without certificate and log. Throws if it refuses. */
function inJavaScript(dsseEnvelope: Envelope, algorithm: Algorithm): void {
  const trust = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
  const keySelector = () => ({ publicKey: pairs[algorithm].publicKey, validFor: () => true });
  const thresholds = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
  const mediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
  const bundle = { mediaType, dsseEnvelope, verificationMaterial: { publicKey: { hint: "signer" } } };
  new Verifier(toTrustMaterial(trust as never, keySelector), thresholds).verify(toSignedEntity(bundleFromJSON(bundle)));
}

describe.each(languageNames.flatMap((language) => algorithms.map((algorithm) => ({ language, algorithm }))))(
  "what $language signs with $algorithm",
  async ({ language, algorithm }) => {
    const target = join(python.folder, `${language}-${algorithm}.sig`);
    await languages[language]({
      operation: "protect",
      profile: "detached_signature",
      source: join(python.folder, "data"),
      target,
      spool: join(python.folder, `spool-${language}`),
      keys: { signers: [{ ...pairs[algorithm].privateKey.export({ format: "jwk" }), kid: "signer" }] },
    });
    const envelope: Envelope = JSON.parse(readFileSync(target, "utf8"));

    test("is accepted by every verifier, and is a statement about the data", async () => {
      const taken = { securesystemslib: true, ...(algorithm === "ES256" && { sigstore: true }) };
      expect(await inPython([envelope], algorithm)).toEqual([taken]);
      inJavaScript(envelope, algorithm);
      expect(envelope.payloadType).toBe("application/vnd.in-toto+json");
      expect(JSON.parse(Buffer.from(envelope.payload, "base64").toString())).toMatchObject({
        _type: "https://in-toto.io/Statement/v1",
        subject: [{ digest: { sha256: createHash("sha256").update(data).digest("hex") } }],
      });
    });

    test("is refused by every verifier with another payload, type or signature, and by another key", async () => {
      const [{ sig }] = envelope.signatures;
      const flipped = (base64: string, at: number) => {
        const bytes = Buffer.from(base64, "base64");
        bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
        return bytes.toString("base64");
      };
      const length = Buffer.from(envelope.payload, "base64").length;
      const changed: readonly Envelope[] = [
        ...[0, length >> 1, length - 1].map((at) => ({ ...envelope, payload: flipped(envelope.payload, at) })),
        { ...envelope, payloadType: "text/plain" },
        ...[8, 40].map((at) => ({ ...envelope, signatures: [{ keyid: "", sig: flipped(sig, at) }] }) as const),
      ];
      const other = generateKeyPairSync(algorithm === "ES256" ? "ec" : ("ed25519" as "ec"), { namedCurve: "P-256" });
      const otherPem = String(other.publicKey.export({ type: "spki", format: "pem" }));
      const verdicts = [
        ...(await inPython(changed, algorithm)),
        ...(await inPython([envelope], algorithm, otherPem)),
      ].flatMap((verdict) => Object.values(verdict));
      expect(verdicts).not.toContain(true);
      expect(new Set(verdicts)).toEqual(new Set(["VerificationError"]));
      for (const each of changed) expect(() => inJavaScript(each, algorithm)).toThrow();
    });
  },
);
