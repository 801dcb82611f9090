/** Files of local enforcement across languages: what one protects or rewraps the other opens, and the same is refused. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEnforcer, localKey, type StreamingAead } from "../../clients/typescript/src/enforce/index.ts";
import { permissivePlatform } from "../harness/permissive-platform.ts";

const root = join(import.meta.dirname, "../..");
const python = join(root, "clients/python/.venv/bin/python");
const program = join(root, "clients/python/tests/permissive_platform.py");
const keys = { "local-old": randomBytes(32).toString("hex"), "local-new": randomBytes(32).toString("hex") };
let folder: string;
const at = (name: string) => join(folder, name);

beforeAll(() => {
  if (!existsSync(python)) execFileSync("bash", [join(root, "clients/python/build.sh")], { stdio: "ignore" });
}, 600_000);
beforeEach(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
  folder = mkdtempSync(join(tmpdir(), "languages-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Work {
  readonly operation: "protect" | "open" | "rewrap";
  readonly source: string;
  readonly target: string;
  readonly aead?: StreamingAead;
}

/** What the operation came to: the artifact's digest, or what failed. */
type Language = (work: Work) => Promise<{ readonly artifact_digest?: string; readonly failure?: string }>;

const inPython: Language = async (work) => {
  const request = { ...work, keys, new_key_reference: "local-new", spool: at("spool") };
  return JSON.parse(execFileSync(python, [program], { input: JSON.stringify(request), encoding: "utf8" }));
};

const inTypeScript: Language = async ({ operation, source: input, target: output, aead = "AES256_GCM_HKDF_1MB" }) => {
  const enforcer = createEnforcer({
    client: permissivePlatform(),
    workload: { application: "test" },
    keys: Object.entries(keys).map(([reference, key]) => localKey(reference, Buffer.from(key, "hex"))),
    spoolDirectory: at("spool"),
  });
  const resource = { kind: "test", id: "Ünï\u2028 \u{1f512}" };
  const work = {
    protect: () => enforcer.protect({ input, output, resource, labels: ["b", "a"], aead }),
    open: () => enforcer.open({ input, output }),
    rewrap: () => enforcer.rewrap({ input, output, newKeyReference: "local-new" }),
  };
  return work[operation]().then(
    ({ artifactDigest }) => ({ artifact_digest: artifactDigest }),
    ({ failure }) => ({ failure }),
  );
};

const languages = { Python: inPython, TypeScript: inTypeScript };
type Name = keyof typeof languages;
const other = { Python: "TypeScript", TypeScript: "Python" } as const satisfies Record<Name, Name>;
const cases = (Object.keys(languages) as Name[]).flatMap((from) => [
  { from, aead: "AES256_GCM_HKDF_4KB", size: 0 } as const,
  { from, aead: "AES256_GCM_HKDF_4KB", size: 4_041 } as const,
  { from, aead: "AES256_GCM_HKDF_1MB", size: 1_048_520 } as const,
  { from, aead: "AES256_GCM_HKDF_1MB", size: 3_000_000 } as const,
]);

test.each(cases)("$from protects $size bytes with $aead, the other opens, rewraps and gives it back", async (it) => {
  const [here, there] = [languages[it.from], languages[other[it.from]]];
  const plaintext = randomBytes(it.size);
  writeFileSync(at("plain"), plaintext);
  expect(await here({ operation: "protect", source: at("plain"), target: at("sealed"), aead: it.aead })).toHaveProperty(
    "artifact_digest",
  );
  await there({ operation: "open", source: at("sealed"), target: at("opened") });
  expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
  const rewrapped = await there({ operation: "rewrap", source: at("sealed"), target: at("rewrapped") });
  const again = await here({ operation: "open", source: at("rewrapped"), target: at("again") });
  expect(again.artifact_digest).toBe(rewrapped.artifact_digest);
  expect(readFileSync(at("again")).equals(plaintext)).toBe(true);
  const changed = readFileSync(at("rewrapped"));
  changed[changed.length - 1] = (changed.at(-1) as number) ^ 1;
  writeFileSync(at("changed"), changed);
  for (const language of [here, there])
    expect(await language({ operation: "open", source: at("changed"), target: at("no") })).toEqual({
      failure: "not_authentic",
    });
  expect(existsSync(at("no"))).toBe(false);
});
