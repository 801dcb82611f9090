/** The public conformance suite of Connect, in its server mode, against this project's own server. */
import { type ExecFileException, execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { differences } from "./conformance/differences.ts";
import { requireTool } from "./tools.ts";

const suite = "connectrpc.com/conformance";
const version = "v1.0.7";
const folder = join(import.meta.dirname, "conformance");
const run = promisify(execFile);
/** What the suite says where the machine was too busy to start a server in its time. */
const notStarted = "timed out waiting for result from server";

let tools: string;
let image: string;

beforeAll(async () => {
  tools = mkdtempSync(join(tmpdir(), "conformance-"));
  const env = { ...process.env, GOBIN: tools };
  await run("go", ["install", `${suite}/cmd/connectconformance@${version}`], { env });
  // The definitions come with the suite, and are nobody else's.
  const { stdout } = await run("go", ["mod", "download", "-json", `${suite}@${version}`], { cwd: tools });
  image = join(tools, "image.binpb");
  const { Dir: directory } = JSON.parse(stdout) as { readonly Dir: string };
  await run(requireTool("buf"), ["build", join(directory, "proto"), "-o", image]);
}, 600_000);
afterAll(() => rmSync(tools, { recursive: true }));

interface Failed {
  readonly name: string;
  readonly says: readonly string[];
}

async function runSuite(): Promise<{ readonly total: number; readonly failed: readonly Failed[] }> {
  const server = [process.execPath, join(folder, "server.ts"), image];
  const args = ["--conf", join(folder, "config.yaml"), "--mode", "server", "--max-servers", "1", "--", ...server];
  const report = await run(join(tools, "connectconformance"), args, { maxBuffer: 256 * 1024 * 1024 }).then(
    ({ stdout, stderr }) => stdout + stderr,
    // Some cases fail, and are looked at one by one.
    (error: ExecFileException) => `${error.stdout ?? ""}${error.stderr ?? ""}`,
  );
  const [cases = "", sum = ""] = report.split("\nTotal cases: ");
  const [, ...blocks] = cases.split(/^FAILED: /m);
  return { total: Number.parseInt(sum, 10), failed: blocks.map(readFailed) };
}

function readFailed(block: string): Failed {
  const [name = "", ...lines] = block.split("\n");
  const says = lines
    .map((line) => line.trim().replace(/^;\s*/, ""))
    // Between the findings are the lines of a diff.
    .filter((line) => line !== "" && !/^(["+(){}|-]|0x|\.\.\.)/.test(line));
  return { name: name.replace(/:$/, ""), says };
}

function differenceOf(name: string, said: string) {
  return differences.find(
    ({ cases, says }) => cases?.test(name) !== false && says.some((pattern) => pattern.test(said)),
  );
}

test("whatever fails, the contract decides otherwise", { timeout: 1_200_000 }, async () => {
  let { total, failed } = await runSuite();
  for (let again = 0; again < 3 && failed.some(({ says }) => says.join().includes(notStarted)); again++)
    ({ total, failed } = await runSuite());
  expect(total).toBe(2035);
  expect(failed.length).toBeLessThan(total);
  const unexplained = failed.flatMap(({ name, says }) =>
    says.length === 0 || says.some((said) => differenceOf(name, said) === undefined) ? [{ name, says }] : [],
  );
  expect(unexplained).toEqual([]);
  // A difference that is none any more goes from the list.
  const met = new Set(failed.flatMap(({ name, says }) => says.map((said) => differenceOf(name, said))));
  expect(differences.filter((difference) => !met.has(difference))).toEqual([]);
});
