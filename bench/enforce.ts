/**
 * Local enforcement of one large file beside openssl on the same machine, in one run: `node bench/enforce.ts [MiB]
 * [folder]`. Default 1,024 MiB in the folder for temporary files; 10,240 is 10 GiB and needs room for four such files.
 * openssl encrypts without authentication (AES-256-CTR, the enc command has no AEAD) and hashes: two passes, which
 * protect does in one. The platform is in memory, so that cryptography and files are measured. Exits with 1 if memory
 * grew with the file.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

const mebibyte = 1_048_576;
const sizeMiB = Number(process.argv[2] ?? 1_024);
if (!Number.isSafeInteger(sizeMiB) || sizeMiB < 1) throw new Error("the size is a whole number of MiB");
const maxPeakMiB = 400;
const folder = await mkdtemp(join(process.argv[3] ?? tmpdir(), "bench-enforce-"));
const at = (name: string) => join(folder, name);
const say = (...cells: readonly (string | number)[]) =>
  void process.stdout.write(`${cells.map((cell, i) => String(cell).padEnd(i === 0 ? 34 : 12)).join("")}\n`);

async function* plaintext(): AsyncGenerator<Buffer> {
  const chunk = randomBytes(mebibyte);
  for (let i = 0; i < sizeMiB; i++) {
    chunk.writeUInt32BE(i);
    yield Buffer.from(chunk);
  }
}

function enforce(operation: string, input: string, output: string) {
  const script = join(import.meta.dirname, "../test/harness/enforcement-memory.ts");
  const printed = execFileSync(process.execPath, [script, operation, at(input), at(output)], { encoding: "utf8" });
  const { peakBytes, elapsedMs } = JSON.parse(printed) as { readonly peakBytes: number; readonly elapsedMs: number };
  const peakMiB = Math.round(peakBytes / mebibyte);
  say(operation, Math.round((1000 * sizeMiB) / elapsedMs), peakMiB);
  return { elapsedMs, peakMiB };
}

function openssl(what: string, parameters: readonly string[]): number {
  const startedAt = performance.now();
  execFileSync("openssl", parameters, { stdio: ["ignore", "ignore", "inherit"] });
  const elapsedMs = performance.now() - startedAt;
  say(what, Math.round((1000 * sizeMiB) / elapsedMs), "");
  return elapsedMs;
}

try {
  await pipeline(plaintext, createWriteStream(at("plain")));
  say(`${sizeMiB} MiB`, "MiB/s", "peak MiB");
  // Reads the file first, so that it is in the page cache for both.
  for await (const _ of createReadStream(at("plain"), { highWaterMark: mebibyte }));
  const key = ["-K", randomBytes(32).toString("hex"), "-iv", randomBytes(16).toString("hex")];
  const encrypted = openssl("openssl enc -aes-256-ctr", [
    "enc",
    "-aes-256-ctr",
    ...key,
    "-in",
    at("plain"),
    "-out",
    at("ctr"),
  ]);
  const hashed = openssl("openssl dgst -sha256", ["dgst", "-sha256", at("ctr")]);
  await rm(at("ctr"));
  const protect = enforce("protect", "plain", "sealed");
  const open = enforce("open", "sealed", "opened");
  await rm(at("opened"));
  const rewrap = enforce("rewrap", "sealed", "rewrapped");
  const ratio = (elapsedMs: number) => ((encrypted + hashed) / elapsedMs).toFixed(2);
  say("of openssl's two passes: protect", ratio(protect.elapsedMs));
  say("open (which hashes twice)", ratio(open.elapsedMs));
  if ([protect, open, rewrap].some(({ peakMiB }) => peakMiB > maxPeakMiB)) process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true });
}
