/** The TypeScript package as a user has it: from its archive, in an empty folder. */
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { runProgram } from "../harness/process.ts";
import { archiveOf } from "./clients-builds.ts";
import { root } from "./clients-deployment.ts";

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

export const bundlerNames = Object.keys(bundlers) as readonly (keyof typeof bundlers)[];

/** Arguments of Node that check programs for Node as strictly as can be, declarations of libraries included. */
export const strictly = [
  join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc"),
  ...["--strict", "--skipLibCheck", "false", "--module", "nodenext", "--target", "es2022", "--types", "node"],
];

/** Installs the package in an empty folder, with others beside it. */
export async function installClient(folder: string, ...packages: readonly string[]) {
  /** Runs a command in the folder. */
  const run = (command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runProgram(command, args, { cwd: folder, env: { ...process.env, NODE_OPTIONS: "", ...env } });
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  await run("npm", ["install", "--no-audit", "--no-fund", archiveOf("typescript"), ...packages]);
  return {
    folder,
    run,
    /** Bundles a program for a page; resolves with the path of the bundle. */
    async bundle(bundler: keyof typeof bundlers, name: string, program: string) {
      await writeFile(join(folder, `${name}.js`), program);
      const bundle = join(folder, `${name}.${bundler}.js`);
      await run(tool(bundler), bundlers[bundler](`${name}.js`, bundle));
      return bundle;
    },
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
