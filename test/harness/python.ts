/** Python tools in an environment of their own, which nothing else on the machine sees. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderForFile } from "./folder.ts";
import { runProgram } from "./process.ts";

/**
 * Makes an environment for all tests of a file, with the packages, each pinned as `name==version`. To be called while the
 * file loads.
 */
export async function pythonForFile(...packages: readonly string[]) {
  const folder = folderForFile("python");
  await runProgram("python3", ["-m", "venv", folder]);
  // Python compiles what it runs, which is little of what is installed.
  const options = ["--quiet", "--disable-pip-version-check", "--no-compile"];
  await runProgram(join(folder, "bin/pip"), ["install", ...options, ...packages]);
  /** Runs a program of the environment, in its folder. Resolves and rejects as `runProgram` does. */
  const run = (program: string, args: readonly string[], { env }: { readonly env?: Record<string, string> } = {}) =>
    runProgram(join(folder, "bin", program), args, { cwd: folder, env: { ...process.env, ...env } });
  return {
    /** The environment; it goes with whatever a test puts there. */
    folder,
    run,
    /** What the Python program prints of each object in the file that it is given. Both have a JSON object a line. */
    async judge(program: string, given: readonly object[]): Promise<Readonly<Record<string, unknown>>[]> {
      writeFileSync(join(folder, "judge.py"), program);
      writeFileSync(join(folder, "given.jsonl"), given.map((each) => `${JSON.stringify(each)}\n`).join(""));
      const lines = (await run("python", ["judge.py", "given.jsonl"])).trim().split("\n");
      return lines.map((line) => JSON.parse(line));
    },
  };
}
