/** The TypeScript package as a user has it: from its archive, in an empty folder. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./clients-deployment.ts";

export interface InstalledClient {
  readonly folder: string;
  readonly archive: string;
  /** Runs a command in the folder; resolves with what it printed, rejects where it failed. */
  run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>;
  /** Bundles a program for a page; resolves with the path of the bundle. */
  bundle(bundler: Bundler, name: string, program: string): Promise<string>;
  stop(): Promise<void>;
}

export type Bundler = keyof typeof bundlers;

const bundlers = {
  esbuild: (from: string, to: string) => [
    ...["--bundle", "--format=esm", "--minify", "--platform=browser"],
    ...[`--outfile=${to}`, from],
  ],
  rolldown: (from: string, to: string) => [
    ...[from, "--format", "esm", "--minify", "--platform", "browser"],
    ...["--file", to],
  ],
} as const;

export const bundlerNames = Object.keys(bundlers) as readonly Bundler[];

/** Packs the package and installs it, with others beside it. */
export async function installClient(...packages: readonly string[]): Promise<InstalledClient> {
  const folder = await mkdtemp(join(tmpdir(), "svc-clients-typescript-"));
  const runIn = async (cwd: string, command: string, args: readonly string[], env = {}) => {
    const options = { cwd, env: { ...process.env, NODE_OPTIONS: "", ...env } };
    return (await promisify(execFile)(command, [...args], options)).stdout;
  };
  await runIn(join(root, "clients/typescript"), "npm", ["pack", "--pack-destination", folder]);
  const [name = ""] = await readdir(folder);
  const archive = join(folder, name);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  await runIn(folder, "npm", ["install", "--no-audit", "--no-fund", archive, ...packages]);
  return {
    folder,
    archive,
    run: (command, args, env) => runIn(folder, command, args, env),
    async bundle(bundler, name, program) {
      await writeFile(join(folder, `${name}.js`), program);
      const bundle = join(folder, `${name}.${bundler}.js`);
      await runIn(folder, tool(bundler), bundlers[bundler](`${name}.js`, bundle));
      return bundle;
    },
    stop: () => rm(folder, { recursive: true }),
  };
}

/** Path of a tool that the service's own checkout has. */
export function tool(name: string): string {
  return join(root, "node_modules/.bin", name);
}

/** Programs of the package's README, in their order. */
export async function readmePrograms(): Promise<readonly string[]> {
  const readme = await readFile(join(root, "clients/typescript/README.md"), "utf8");
  return [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map(([, text = ""]) => text);
}
