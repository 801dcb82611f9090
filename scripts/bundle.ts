/**
 * Bundles the service with the packages that it imports: a start then finds, reads and links dozens of files instead of
 * several hundred, and strips no types. What the source imports when it is wanted stays in files of its own.
 */
import { readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type Plugin, rolldown } from "rolldown";
import { root } from "./packages.ts";

/** Packages that are more than JavaScript, and are not bundled: WebAssembly, and assets that are served. */
export const unbundled = ["@cedar-policy/cedar-wasm", "swagger-ui-dist"];
/** Not installed: what asks for it does without. */
const optional = ["pg-native"];

const source = join(root, "src");
const ownFile = /new URL\("(\.[^"]+)", import\.meta\.url\)/g;

/**
 * Files that the source names by their URL: the modules of threads and others that it loads by themselves become entry
 * points, everything else is copied.
 */
const filesByUrl: Plugin = {
  name: "files-by-url",
  transform(code, id) {
    if (!id.startsWith(source)) return;
    const changed = code.replaceAll(ownFile, (_, path: string) => {
      const file = resolve(dirname(id), path);
      const reference = file.endsWith(".ts")
        ? this.emitFile({ type: "chunk", id: file, name: relative(source, file).slice(0, -3).replaceAll("/", "-") })
        : this.emitFile({ type: "asset", name: basename(file), source: readFileSync(file) });
      return `new URL(import.meta.ROLLUP_FILE_URL_${reference})`;
    });
    // What is found relative to the source in another way would not be found from the bundle.
    const missed = /new URL\([^)]*import\.meta\.url|\brequire\("\./.exec(changed);
    if (missed !== null) throw new Error(`${id}: write new URL("./…", import.meta.url) instead of ${missed[0]}`);
    // Lines stay where they are, and what is named in them too, but for what stands behind an address.
    return changed === code ? undefined : { code: changed, map: null };
  },
};

/**
 * Writes `main.js`, `cli.js` and the folder `chunks` into the folder. Rejects where an import leads nowhere. Source maps
 * are files of their own, which nothing reads unless Node is asked to (`--enable-source-maps`).
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
      // A name with the hash of its content: a service whose files were replaced never loads half of another version.
      chunkFileNames: "chunks/[name]-[hash].js",
      assetFileNames: "assets/[name]-[hash][extname]",
      sourcemap: true,
      sourcemapExcludeSources: true,
    });
  } finally {
    await build.close();
  }
}
