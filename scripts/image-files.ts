/**
 * Makes the file system of the container image in an empty folder, without a base image: the program as it is deployed
 * (`app-files.ts`), the pinned Node with the system libraries that it loads, and the list of all packages and libraries
 * in it. It contains no shell and no other program. Needs Debian or a derivative, with glibc.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { copy, writeAppFiles } from "./app-files.ts";
import { consoleFiles } from "./bundle.ts";
import { billOfMaterials } from "./image-bom.ts";
import { type Library, librariesOf } from "./image-libraries.ts";
import { productionPackages, root } from "./packages.ts";

const nodePackage = `node-linux-${process.arch}`;
/** Writes the file system into the folder, which must be empty or absent. */
export async function writeImageFiles(folder: string): Promise<void> {
  if (existsSync(folder) && readdirSync(folder).length > 0) throw new Error(`${folder} is not empty`);
  if (consoleFiles().length === 0) throw new Error("console/dist is absent: npm run build makes it");
  const app = join(folder, "app");
  const packages = productionPackages();
  await writeAppFiles(app);

  const node = join(folder, "usr/local/bin/node");
  copy(join(root, "node_modules", nodePackage, "bin/node"), node);
  chmodSync(node, 0o755);
  copy(join(root, "node_modules", nodePackage, "LICENSE"), join(folder, "usr/share/doc/node/LICENSE"));
  const addons = readdirSync(app, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".node"));
  const libraries = librariesOf([node, ...addons.map((path) => join(app, path))]);
  for (const library of libraries) addLibrary(folder, library);

  writeFileSync(join(app, "sbom.cdx.json"), billOfMaterials(root, packages, libraries));
  // Mount points: of a volume, and of what runtimes mount into every container.
  for (const name of ["data", "dev", "etc", "proc", "run", "sys", "tmp"]) mkdirSync(join(folder, name));
}

function addLibrary(folder: string, { path, copyright, debianPackage }: Library): void {
  copy(path, join(folder, path));
  const notice = join(folder, "usr/share/doc", debianPackage.name, "copyright");
  if (!existsSync(notice)) copy(copyright, notice);
}

/** Total size of all files in the folder, in bytes. */
export function sizeOf(folder: string): number {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error("usage: npm run image:files -- <empty folder>");
  await writeImageFiles(resolve(folder));
  process.stdout.write(`${folder}: ${(sizeOf(folder) / 2 ** 20).toFixed(0)} MiB\n`);
}
