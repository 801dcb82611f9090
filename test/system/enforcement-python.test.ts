/** Files of local enforcement across languages: what one protects or rewraps the other opens, and the same is refused. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { folderForTest } from "../harness/folder.ts";
import { buildLanguages, type LanguageName, languageNames, languages, type Work } from "./enforcement-languages.ts";

const keys = {
  local: { "local-old": randomBytes(32).toString("hex"), "local-new": randomBytes(32).toString("hex") },
};
let folder: string;
const at = (name: string) => join(folder, name);

buildLanguages();
beforeEach(() => {
  folder = folderForTest("languages");
});

const run = (name: LanguageName) => (work: Omit<Work, "keys" | "spool" | "new_key_reference">) =>
  languages[name]({
    ...work,
    keys,
    spool: at("spool"),
    new_key_reference: "local-new",
  });

const pairs = [
  { from: "TypeScript", to: "Python" },
  { from: "Python", to: "TypeScript" },
] as const satisfies readonly Record<"from" | "to", LanguageName>[];
const cases = pairs.flatMap((pair) => [
  { ...pair, aead: "AES256_GCM_HKDF_4KB", size: 0 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_4KB", size: 4_041 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_1MB", size: 1_048_520 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_1MB", size: 3_000_000 } as const,
]);

test.each(cases)("$from protects $size bytes with $aead, $to opens, rewraps and gives it back", async (it) => {
  const [here, there] = [run(it.from), run(it.to)];
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
  changeByte("rewrapped", -1);
  for (const name of languageNames)
    expect(await run(name)({ operation: "open", source: at("rewrapped"), target: at("no") })).toEqual(notAuthentic);
  expect(existsSync(at("no"))).toBe(false);
});

const notAuthentic = { failure: "not_authentic" };

function changeByte(name: string, place: number): void {
  const bytes = readFileSync(at(name));
  const index = (place + bytes.length) % bytes.length;
  bytes[index] = (bytes[index] as number) ^ 1;
  writeFileSync(at(name), bytes);
}
