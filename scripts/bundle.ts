/**
 * Bundles the service with the packages that it imports, so that a start reads and links dozens of files instead of
 * several hundred and strips no types. Dynamic imports stay separate files.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type Plugin, rolldown } from "rolldown";
import { root } from "./packages.ts";

/** Packages that are not bundled because they are more than JavaScript: WebAssembly, and served assets. */
export const unbundled = ["@cedar-policy/cedar-wasm", "swagger-ui-dist"];
/** Not installed: the importer works without it. */
const optional = ["pg-native"];

const source = join(root, "src");
/** The console's document, which `npm run build --prefix console` makes with its assets. */
const consolePage = join(root, "console/dist/index.html");
const consoleAbsent = `new URL("file:///console-not-built/index.html")`;

/** Names of the console's files, relative to the folder of its document; none if it is not built. */
export function consoleFiles(): readonly string[] {
  const folder = dirname(consolePage);
  if (!existsSync(consolePage)) return [];
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

const ownFile = /new URL\("(\.[^"]+)", import\.meta\.url\)/g;

/**
 * Files that the source names by URL: modules of threads and others that are loaded separately become entry points; all
 * others are copied.
 */
const filesByUrl: Plugin = {
  name: "files-by-url",
  transform(code, id) {
    if (!id.startsWith(source)) return;
    const changed = code.replaceAll(ownFile, (_, path: string) => {
      const file = resolve(dirname(id), path);
      const emit = (from: string, place: { name?: string; fileName?: string }) =>
        this.emitFile({ type: "asset", ...place, source: readFileSync(from) });
      if (file === consolePage) {
        const names = consoleFiles();
        // Without its files the service says that the console is not built.
        if (names.length === 0) return consoleAbsent;
        const references = names.map((name) => emit(join(dirname(file), name), { fileName: `console/${name}` }));
        return `new URL(import.meta.ROLLUP_FILE_URL_${references[names.indexOf(basename(file))]})`;
      }
      const reference = file.endsWith(".ts")
        ? this.emitFile({ type: "chunk", id: file, name: relative(source, file).slice(0, -3).replaceAll("/", "-") })
        : emit(file, { name: basename(file) });
      return `new URL(import.meta.ROLLUP_FILE_URL_${reference})`;
    });
    // A path relative to the source in any other form would not be found from the bundle.
    const missed = /new URL\([^)]*import\.meta\.url|\brequire\("\./.exec(changed);
    if (missed !== null) throw new Error(`${id}: write new URL("./…", import.meta.url) instead of ${missed[0]}`);
    // Line numbers stay the same, and columns too, except behind a replaced URL.
    return changed === code ? undefined : { code: changed, map: null };
  },
};

/**
 * Writes `main.js`, `cli.js` and the folder `chunks` into the folder. Rejects if an import cannot be resolved. Source
 * maps are separate files, read only if Node is asked to (`--enable-source-maps`).
 */
export async function bundleService(folder: string): Promise<void> {
  const build = await rolldown({
    cwd: root,
    input: { main: join(source, "main.js"), cli: join(source, "cli/cli.ts") },
    platform: "node",
    tsconfig: false,
    external: [...unbundled, ...optional].map((name) => new RegExp(`^${name}(?:/|$)`)),
    plugins: [filesByUrl],
    onLog(level, log) {
      if (level === "warn") throw new Error(log.message);
    },
  });
  try {
    await build.write({
      dir: folder,
      format: "esm",
      entryFileNames: "[name].js",
      // The name carries the hash of the content, so that a service whose files were replaced never loads parts of two
      // versions.
      chunkFileNames: "chunks/[name]-[hash].js",
      assetFileNames: "assets/[name]-[hash][extname]",
      sourcemap: true,
      sourcemapExcludeSources: true,
    });
  } finally {
    await build.close();
  }
}
