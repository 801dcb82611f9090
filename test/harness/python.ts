/** Python tools in an environment of their own, which nothing else on the machine sees. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

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

/** Makes an environment with the packages, each pinned as `name==version`. */
export async function installPythonTools(packages: readonly string[]): Promise<PythonTools> {
  const folder = await mkdtemp(join(tmpdir(), "svc-python-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await run("python3", ["-m", "venv", folder]);
    await run(join(folder, "bin/pip"), ["install", "--quiet", "--disable-pip-version-check", ...packages]);
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
