/** Python tools in an environment of their own, which nothing else on the machine sees. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { folderForFile } from "./folder.ts";

const run = promisify(execFile);

export interface PythonTools {
  /** Folder of the environment; it goes with whatever a test puts there. */
  readonly folder: string;
  /**
   * Runs a program of the environment. Resolves with its standard output; rejects where it fails, with everything
   * that it said in the message.
   */
  run(program: string, args: readonly string[], options?: { readonly env?: Record<string, string> }): Promise<string>;
}

/**
 * Makes an environment for all tests of a file, with the packages, each pinned as `name==version`. To be called while the
 * file loads.
 */
export async function pythonForFile(...packages: readonly string[]): Promise<PythonTools> {
  const folder = folderForFile("python");
  await run("python3", ["-m", "venv", folder]);
  // Python compiles what it runs, which is little of what is installed.
  const options = ["--quiet", "--disable-pip-version-check", "--no-compile"];
  await run(join(folder, "bin/pip"), ["install", ...options, ...packages]);
  return {
    folder,
    async run(program, args, { env } = {}) {
      try {
        const options = { cwd: folder, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 };
        return (await run(join(folder, "bin", program), args, options)).stdout;
      } catch (error) {
        const { stdout, stderr } = error as { stdout?: string; stderr?: string };
        throw new Error(`${program} failed\n${stdout ?? ""}\n${stderr ?? ""}`, { cause: error });
      }
    },
  };
}
