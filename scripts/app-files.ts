/**
 * Makes the program as it is deployed, in a folder: bundled (`bundle.ts`), with the packages that cannot be bundled and
 * all licences. Running it needs only Node.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { bundleService, consoleFiles, unbundled } from "./bundle.ts";
import { type InstalledPackage, productionPackages, root } from "./packages.ts";

/** Files that only compilers and debuggers read. */
const unused = /\.(?:d\.[cm]?ts|map)$/;
const isNode = /^node-(?:bin-)?(?:darwin|linux|win)-/;
const notice = /^(?:licen[cs]e|notice|copying|copyright|authors)/i;

/** Writes the program into the folder: `main.js`, `cli.js` and what they need. Replaces an earlier one. */
export async function writeAppFiles(folder: string): Promise<void> {
  for (const name of ["assets", "chunks", "console", "licenses"])
    rmSync(join(folder, name), { recursive: true, force: true });
  await bundleService(folder);
  const { name, version, type } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ name, version, type, private: true })}\n`);
  const whole = new Set(productionPackages(unbundled).map(({ path }) => path));
  for (const installed of productionPackages()) {
    // Node is not part of the program, though npm installs it.
    if (isNode.test(installed.name)) continue;
    if (!whole.has(installed.path)) addNotices(installed, join(folder, "licenses"));
    else {
      rmSync(join(folder, installed.path), { recursive: true, force: true });
      copy(join(root, installed.path), join(folder, installed.path));
    }
  }
  addConsoleNotices(join(folder, "licenses/console"));
}

/** The console's files contain its dependencies: their licences go with them. */
function addConsoleNotices(licenses: string): void {
  if (consoleFiles().length === 0) return;
  const { packages } = JSON.parse(readFileSync(join(root, "console/package-lock.json"), "utf8"));
  const { dependencies } = packages[""] as { readonly dependencies: Readonly<Record<string, string>> };
  for (const [name, version] of Object.entries(dependencies))
    addNotices({ path: join("console/node_modules", name), name, version }, licenses);
}

/**
 * Copies the licence information of a bundled package: its manifest and notices, or its other top-level text if it has
 * no notices.
 */
function addNotices({ path, name, version }: InstalledPackage, licenses: string): void {
  const files = readdirSync(join(root, path), { withFileTypes: true }).filter((entry) => entry.isFile());
  const notices = files.filter((file) => notice.test(file.name));
  const kept = notices.length > 0 ? notices : files.filter((file) => /^readme/i.test(file.name));
  for (const file of ["package.json", ...kept.map((each) => each.name)])
    copy(join(root, path, file), join(licenses, `${name}@${version}`, file));
}

/** Copies a file, following links, or a folder without unused files and without the packages in it. */
export function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  const isWanted = (path: string) => !unused.test(path) && (basename(path) !== "node_modules" || path === from);
  cpSync(from, to, { recursive: true, dereference: true, filter: isWanted });
}

if (import.meta.main) await writeAppFiles(resolve(process.argv[2] ?? join(root, "dist")));
