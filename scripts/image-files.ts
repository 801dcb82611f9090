/**
 * Makes the file system of the container image in an empty folder, without a base image: this project's program, the
 * production packages that `npm ci` installed, the pinned Node with the system libraries that it loads, and the list of
 * all of them. There is no shell in it, and no other program. Needs a Debian (or what is made from it) with glibc.
 */
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { billOfMaterials } from "./image-bom.ts";
import { type Library, librariesOf } from "./image-libraries.ts";

const root = resolve(import.meta.dirname, "..");
const nodePackage = `node-linux-${process.arch}`;
/** What only compilers and debuggers read. */
const unused = /\.(?:d\.[cm]?ts|map)$/;

/** One package of the lock file that is part of a production install. */
export interface InstalledPackage {
  /** Path below the project: `node_modules/…`. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
}

/** Writes the file system into the folder, which must be empty or not there. */
export function writeImageFiles(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length > 0) throw new Error(`${folder} is not empty`);
  const app = join(folder, "app");
  for (const name of ["src", "gen", "package.json"]) copy(join(root, name), join(app, name));
  const packages = productionPackages();
  for (const { path, name } of packages) if (name !== nodePackage) copy(join(root, path), join(app, path));

  const node = join(folder, "usr/local/bin/node");
  copy(join(root, "node_modules", nodePackage, "bin/node"), node);
  chmodSync(node, 0o755);
  copy(join(root, "node_modules", nodePackage, "LICENSE"), join(folder, "usr/share/doc/node/LICENSE"));
  const addons = readdirSync(app, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".node"));
  const libraries = librariesOf([node, ...addons.map((path) => join(app, path))]);
  for (const library of libraries) addLibrary(folder, library);

  writeFileSync(join(app, "sbom.cdx.json"), billOfMaterials(root, packages, libraries));
  // Where a volume is mounted; and where runtimes put what they mount into every container.
  for (const name of ["data", "dev", "etc", "proc", "run", "sys", "tmp"]) mkdirSync(join(folder, name));
}

interface LockedPackage {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/**
 * Packages that `npm ci --omit=dev --workspaces=false` installs here, by the lock file. npm's own marks do not tell what
 * the service needs from what the client package in the same checkout does.
 */
export function productionPackages(): readonly InstalledPackage[] {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  const found = new Set<string>();
  const visit = (path: string) => {
    const { dependencies, optionalDependencies, peerDependencies } = packages[path] as LockedPackage;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const needed = placeOf(name, path, packages);
      // Optional ones are of other platforms, or not installed.
      if (needed === undefined || found.has(needed) || !existsSync(join(root, needed))) continue;
      found.add(needed);
      visit(needed);
    }
  };
  visit("");
  return [...found].toSorted().map((path) => ({
    path,
    version: packages[path]?.version as string,
    name: path.slice(path.lastIndexOf("node_modules/") + 13),
  }));
}

/** Where Node finds the package that another one imports: beside it or beside one of those that it is in. */
function placeOf(name: string, from: string, packages: object): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const path = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (path in packages) return path;
    if (folder === "") return undefined;
  }
}

function addLibrary(folder: string, { path, copyright, debianPackage }: Library): void {
  copy(path, join(folder, path));
  const notice = join(folder, "usr/share/doc", debianPackage.name, "copyright");
  if (!existsSync(notice)) copy(copyright, notice);
}

/** Copies a file, following links, or a folder without what is unused and without the packages in it. */
function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  const isWanted = (path: string) => !unused.test(path) && (basename(path) !== "node_modules" || path === from);
  cpSync(from, to, { recursive: true, dereference: true, filter: isWanted });
}

/** Bytes of all files in the folder. */
export function sizeOf(folder: string): number {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error("usage: npm run image:files -- <empty folder>");
  writeImageFiles(resolve(folder));
  process.stdout.write(`${folder}: ${(sizeOf(folder) / 2 ** 20).toFixed(0)} MiB\n`);
}
