/** Memory of local enforcement does not grow with the file: eight times the file, no more than some segments besides. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { buildLanguages, type LanguageName, languageNames, programEnv, programs } from "./enforcement-languages.ts";

const mebibyte = 1_048_576;
const folder = folderForFile("memory");
buildLanguages();

function peakBytes(language: LanguageName, operation: string, ...files: readonly string[]): number {
  const [command, ...args] = programs[language].memory;
  const printed = execFileSync(command, [...args, operation, ...files], { encoding: "utf8", env: programEnv });
  return (JSON.parse(printed) as { readonly peakBytes: number }).peakBytes;
}

test.each(languageNames)("protect, rewrap, open, sign and verify of 40 MiB and of 320 MiB: %s", (language) => {
  const peaks = [40, 320].map((size) => {
    const at = (name: string) => join(folder, `${name}-${size}`);
    const chunk = randomBytes(8 * mebibyte);
    for (let written = 0; written < size; written += 8) appendFileSync(at("plain"), chunk);
    const found = {
      protect: peakBytes(language, "protect", at("plain"), at("sealed")),
      rewrap: peakBytes(language, "rewrap", at("sealed"), at("rewrapped")),
      open: peakBytes(language, "open", at("rewrapped"), at("opened")),
      sign: peakBytes(language, "sign", at("plain"), at("signature")),
      verify: peakBytes(language, "verify", at("plain"), at("verified"), at("signature")),
      "tdf-protect": peakBytes(language, "tdf-protect", at("plain"), at("tdf")),
      "tdf-open": peakBytes(language, "tdf-open", at("tdf"), at("tdf-opened")),
    };
    for (const name of ["opened", "verified", "tdf-opened"]) expect(statSync(at(name)).size).toBe(size * mebibyte);
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
    return found;
  });
  const [small, large] = peaks;
  for (const [operation, peak] of Object.entries(large ?? {})) {
    const more = peak - (small?.[operation as keyof typeof small] ?? 0);
    expect(more, `${operation}: ${JSON.stringify(peaks)}`).toBeLessThan(96 * mebibyte);
  }
});
