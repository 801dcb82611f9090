/** Receipts kept beside artifacts, of a real service: both languages show the same of what either made, and refuse the same. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  EnforcementError,
  localSigningKey,
  receiptsPathOf,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import { defaultClient } from "../../dev/issuer.ts";
import { startEnforcementStack } from "../harness/enforcement.ts";
import { folderForFile } from "../harness/folder.ts";
import { forFile } from "../harness/lifetimes.ts";
import {
  buildLanguages,
  type LanguageName,
  languageNames,
  languages,
  pythonProgram,
  type Work,
} from "./enforcement-languages.ts";

const folder = folderForFile("verify");
const at = (name: string) => join(folder, name);
const signers = ["signer-old", "signer-new"].map((kid) => ({
  ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
  kid,
}));
const tdf = ["tdf-old", "tdf-new"].map((kid) => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  ...{ kid, kas_url: "https://kas.example.com" },
}));
const keys = { local: { "local-old": "00".repeat(32), "local-new": "11".repeat(32) }, signers, tdf };
const client = defaultClient();
buildLanguages();
const stack = await forFile(startEnforcementStack({}, [client]));
const logKey = await stack.logKey();
writeFileSync(at("plain"), randomBytes(100_000));
writeFileSync(at("other"), "other data");
for (const name of languageNames) await makeAll(name, languageNames.find((other) => other !== name) ?? name);

/** Everything that a language makes, under names that begin with its own; what the other one rewraps of it, and opens. */
async function makeAll(name: LanguageName, other: LanguageName): Promise<void> {
  const { clientId, clientSecret, scopes } = client;
  const service = {
    url: stack.stack.url,
    issuer: stack.stack.issuer.url,
    client_id: clientId,
    client_secret: clientSecret,
    scopes,
  };
  const run = async (by: LanguageName, work: Pick<Work, "operation" | "source" | "target"> & Partial<Work>) => {
    const given = { ...work, keys, spool: at(`spool-${by}`), service, log_keys: [logKey] };
    expect(await languages[by](given)).toHaveProperty("artifact_digest");
  };
  const own = (made: string) => at(`${name}-${made}`);
  const profile = "detached_signature";
  await run(name, { operation: "protect", source: at("plain"), target: own("sealed") });
  const resealed = { source: own("sealed"), target: own("resealed"), new_key_reference: "local-new" };
  await run(other, { operation: "rewrap", ...resealed });
  await run(name, { operation: "open", source: own("resealed"), target: own("opened") });
  await run(name, { operation: "protect", profile, source: at("plain"), target: own("sig") });
  const signedAgain = { source: own("sig"), target: own("anew"), new_key_reference: "signer-new" };
  await run(other, { operation: "rewrap", profile, ...signedAgain });
  await run(name, { operation: "open", source: at("plain"), signature: own("anew"), target: own("verified") });
  const tdfKeys = { profile: "tdf", tdf_keys: [["tdf-old"], ["tdf-new"]] } as const;
  await run(name, { operation: "protect", ...tdfKeys, source: at("plain"), target: own("tdf") });
  const rewrapping = { profile: "tdf", new_key_reference: "tdf-new" } as const;
  await run(other, { operation: "rewrap", ...rewrapping, source: own("tdf"), target: own("retdf") });
  await run(name, { operation: "open", profile: "tdf", source: own("retdf"), target: own("untdf") });
  await run(other, { operation: "open", profile: "tdf", source: own("tdf"), target: own("untdf-there") });
  for (const made of ["opened", "verified", "untdf", "untdf-there"])
    expect(readFileSync(own(made)).equals(readFileSync(at("plain")))).toBe(true);
}

type Kind = "artifact" | "opened";
interface Asked {
  readonly artifact: string;
  readonly kind?: Kind;
  readonly log_keys: readonly string[];
  readonly data?: string;
  readonly signers?: typeof signers;
}

/** What each language says of the artifacts; they agree. */
async function shown(...asked: readonly Asked[]): Promise<readonly unknown[]> {
  const inPython = await pythonProgram<readonly unknown[]>("verify_artifacts.py", asked);
  expect(inPython).toEqual(await Promise.all(asked.map(inTypeScript)));
  return inPython;
}

async function inTypeScript(asked: Asked): Promise<unknown> {
  const { artifact, kind = "artifact", log_keys: logKeys, data } = asked;
  const own = asked.signers?.map((jwk) => localSigningKey(jwk.kid, jwk));
  return verifyArtifact({
    artifact,
    kind,
    logKeys,
    ...(data !== undefined && { data }),
    ...(own !== undefined && { keys: own }),
  }).then(
    ({ operation, decisionId, records, isEvidencePending, isContentProven = null, origin }) => ({
      operation,
      decision_id: decisionId,
      names: records.map(({ name }) => name),
      is_pending: isEvidencePending,
      is_content_proven: isContentProven,
      origin: origin?.decisionId ?? null,
    }),
    (error: unknown) => {
      if (error instanceof EnforcementError) return { failure: error.failure };
      throw error;
    },
  );
}

const made = [
  ["sealed", "protect", ["plan", "key_access", "registration", "evidence"]],
  ["resealed", "rewrap", ["plan", "key_access", "new_key_access", "registration", "evidence"]],
  ["opened", "access", ["plan", "key_access", "evidence"]],
  ["sig", "protect", ["plan", "key_access", "registration", "evidence"]],
  ["anew", "rewrap", ["plan", "key_access", "new_key_access", "registration", "evidence"]],
  ["verified", "access", ["plan", "key_access", "evidence"]],
  ["tdf", "protect", ["plan", "key_access", "registration", "evidence"]],
  ["retdf", "rewrap", ["plan", "key_access", "new_key_access", "registration", "evidence"]],
  ["untdf", "access", ["plan", "key_access", "evidence"]],
] as const;

test.each(languageNames)("both verifiers show what %s made and the other language rewrapped", async (name) => {
  const of = (file: string, kind: Kind) => ({ artifact: at(`${name}-${file}`), log_keys: [logKey], kind });
  const kindOf = (operation: string): Kind => (operation === "access" ? "opened" : "artifact");
  const other = { opened: "artifact", artifact: "opened" } as const;
  expect(await shown(...made.map(([file, operation]) => of(file, kindOf(operation))))).toMatchObject(
    made.map(([, operation, names]) => ({ operation, names, is_pending: false })),
  );
  expect(await shown(...made.map(([file, operation]) => of(file, other[kindOf(operation)])))).toEqual(
    made.map(() => ({ failure: "not_authentic" })),
  );
  const whole = { ...of("anew", "artifact"), data: at("plain"), signers };
  const [signer] = signers.map(({ kid: _, ...jwk }) => ({ ...jwk, kid: "signer-new" }));
  expect(
    await shown(
      whole,
      { ...whole, data: at("other") },
      { ...whole, signers: signers.slice(0, 1) },
      { ...whole, signers: signer === undefined ? [] : [signer] },
    ),
  ).toEqual([
    expect.objectContaining({ operation: "rewrap" }),
    { failure: "not_authentic" },
    { failure: "invalid" },
    { failure: "not_authentic" },
  ]);
});

interface Receipts {
  format: string;
  operation: string;
  artifact_profile: string;
  artifact_digest: string;
  artifact_cid: string;
  decision_id: string;
  receipts: Record<string, unknown>;
}
const receiptsOf = (name: string) => JSON.parse(readFileSync(receiptsPathOf(at(name)), "utf8")) as Receipts;

const changes: readonly (readonly [what: string, failure: string, change: (found: Receipts) => object])[] = [
  ...["plan", "key_access", "registration"].map(
    (missing) =>
      [
        `no receipt of the ${missing}`,
        "not_authentic",
        (found: Receipts) => {
          const { [missing]: _, ...receipts } = found.receipts;
          return { ...found, receipts };
        },
      ] as const,
  ),
  [
    "a changed receipt",
    "not_authentic",
    (found) => ({
      ...found,
      receipts: { ...found.receipts, plan: { ...(found.receipts.plan as object), leaf_index: 0 } },
    }),
  ],
  ["another format", "invalid", (found) => ({ ...found, format: "svc-platform-receipts/v2" })],
];

/** Parts of other proofs are in the drawn swaps of each language: test/wire/enforcement-proofs.test.ts, swaps.py. */
test.each(changes)("both verifiers refuse it: %s", async (_, failure, change) => {
  for (const name of languageNames) {
    copyFileSync(at(`${name}-sealed`), at("changed"));
    writeFileSync(receiptsPathOf(at("changed")), JSON.stringify(change(receiptsOf(`${name}-sealed`))));
    expect(await shown({ artifact: at("changed"), log_keys: [logKey] })).toEqual([{ failure }]);
  }
});

test("both verifiers refuse a changed artifact, another log, and malformed receipts", async () => {
  copyFileSync(receiptsPathOf(at("Python-sealed")), receiptsPathOf(at("changed")));
  writeFileSync(at("changed"), readFileSync(at("Python-sealed")).fill(0, 200, 201));
  const asked = { artifact: at("changed"), log_keys: [logKey] };
  expect(await shown(asked)).toEqual([{ failure: "not_authentic" }]);
  copyFileSync(receiptsPathOf(at("TypeScript-tdf")), receiptsPathOf(at("changed")));
  copyFileSync(at("Python-tdf"), at("changed"));
  expect(await shown(asked)).toEqual([{ failure: "not_authentic" }]);
  copyFileSync(receiptsPathOf(at("Python-sealed")), receiptsPathOf(at("changed")));
  expect(await shown({ ...asked, artifact: at("Python-sealed"), log_keys: [] })).toEqual([
    { failure: "not_authentic" },
  ]);
  for (const text of ["", "[]", "null", '{"format":"svc-platform-receipts/v1"}']) {
    writeFileSync(receiptsPathOf(at("changed")), text);
    expect(await shown(asked)).toEqual([{ failure: "invalid" }]);
  }
  rmSync(receiptsPathOf(at("changed")));
  expect(await shown(asked)).toEqual([{ failure: "invalid" }]);
});
