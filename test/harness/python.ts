/** Python tools in an environment of their own, which nothing else on the machine sees. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll } from "vitest";

const run = promisify(execFile);

export interface PythonTools {
  /** Folder of the environment; removed by `remove`, with whatever a test puts there. */
  readonly folder: string;
  /**
   * Runs a program of the environment. Resolves with its standard output; rejects where it fails, with everything
   * that it said in the message.
   */
  run(program: string, args: readonly string[], options?: { readonly env?: Record<string, string> }): Promise<string>;
  remove(): Promise<void>;
}

/** An environment for all tests of a file. To be called while the file loads. */
export async function pythonForFile(...packages: readonly string[]): Promise<PythonTools> {
  const tools = await installPythonTools(...packages);
  afterAll(() => tools.remove());
  return tools;
}

/** Makes an environment with the packages, each pinned as `name==version`. */
export async function installPythonTools(...packages: readonly string[]): Promise<PythonTools> {
  const folder = await mkdtemp(join(tmpdir(), "svc-python-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await run("python3", ["-m", "venv", folder]);
    // Python compiles what it runs, which is little of what is installed.
    const options = ["--quiet", "--disable-pip-version-check", "--no-compile"];
    await run(join(folder, "bin/pip"), ["install", ...options, ...packages]);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    folder,
    remove,
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
