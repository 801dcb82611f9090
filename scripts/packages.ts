/** Packages of a production install, by the lock file. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "..");

/** One package of the lock file that is part of a production install. */
export interface InstalledPackage {
  /** Path below the project: `node_modules/…`. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
}

interface LockedPackage {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/**
 * Packages that `npm ci --omit=dev --workspaces=false` installs here, or the named ones, with their dependencies. npm's
 * own marks do not separate the service's packages from those of the client package in the same checkout.
 */
export function productionPackages(named?: readonly string[]): readonly InstalledPackage[] {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  const found = new Set<string>();
  const add = (name: string, from: string) => {
    const needed = placeOf(name, from, packages);
    // Optional packages are for other platforms, or not installed.
    if (needed === undefined || found.has(needed) || !existsSync(join(root, needed))) return;
    found.add(needed);
    visit(needed);
  };
  const visit = (path: string) => {
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = packages[
      path
    ] as LockedPackage;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) add(name, path);
    // A package only types itself with an optional one, such as the compiler.
    for (const name of Object.keys({ ...peerDependencies }))
      if (peerDependenciesMeta?.[name]?.optional !== true) add(name, path);
  };
  if (named === undefined) visit("");
  else for (const name of named) add(name, "");
  return [...found].toSorted().map((path) => ({
    path,
    version: packages[path]?.version as string,
    name: path.slice(path.lastIndexOf("node_modules/") + 13),
  }));
}

/** Path at which Node finds the package that another one imports: beside it, or beside one of those that contain it. */
function placeOf(name: string, from: string, packages: object): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const path = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (path in packages) return path;
    if (folder === "") return undefined;
  }
}
