/** Archives of the packages, each built once in a run. */
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { isOfThisRun } from "../harness/this-run.ts";
import { root } from "./clients-deployment.ts";

const packed = join(root, "node_modules/.cache/svc-platform-api/client");
const archives = {
  go: "clients/go/dist/*.tar.gz",
  java: "clients/java/target/platform-client-*[0-9].jar",
  python: "clients/python/dist/*.whl",
  rust: "clients/rust/target/package/*.crate",
  typescript: "node_modules/.cache/svc-platform-api/client/*.tgz",
} as const;

export type PackageLanguage = keyof typeof archives;

/** Path of the package's archive. Makes it unless this run has done so, in whichever file. Throws if that fails. */
export function archiveOf(language: PackageLanguage): string {
  const find = () => globSync(archives[language], { cwd: root }).find((path) => isOfThisRun(join(root, path)));
  if (find() === undefined) build(language);
  const path = find();
  if (path === undefined) throw new Error(`nothing was built for ${language}`);
  return join(root, path);
}

function build(language: PackageLanguage): void {
  const options = { cwd: root, stdio: "pipe" } as const;
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], options);
  if (language !== "typescript") return void execFileSync(`clients/${language}/build.sh`, options);
  mkdirSync(packed, { recursive: true });
  const cwd = join(root, "clients/typescript");
  execFileSync("npm", ["pack", "--pack-destination", packed], { ...options, cwd });
}
