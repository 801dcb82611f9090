/**
 * Bundles the modules of the embedded store's threads. A test run starts some thousand of these threads; finding and
 * linking seventy source files takes more than half of what a start costs. Processes that tests start run the source.
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import type { Plugin } from "vitest/config";

const root = resolve(import.meta.dirname, "../..");
const modules = [join(root, "src/stores/sqlite/worker.ts")];
/** Beside the packages that the bundle imports. */
const folder = join(root, "node_modules/.cache/svc-platform-api/threads");

/** Writes the bundle. Resolves with the file of each module. */
async function bundle(): Promise<ReadonlyMap<string, string>> {
  const build = await rolldown({ cwd: root, input: modules, platform: "node", tsconfig: false });
  // Names carry the hash of the content: another run may read the folder.
  const names = { entryFileNames: "[name]-[hash].js", chunkFileNames: "[name]-[hash].js" };
  const { output } = await build.write({ dir: folder, format: "esm", ...names, sourcemap: true });
  await build.close();
  return new Map(
    output.flatMap((file) =>
      file.type === "chunk" && file.facadeModuleId !== null
        ? [[file.facadeModuleId, join(folder, file.fileName)] as const]
        : [],
    ),
  );
}

let files: ReadonlyMap<string, string>;

/** Puts a bundled module in the place of each that the source names by its URL. */
export const threadBundle: Plugin = {
  name: "thread-bundle",
  async configureVitest({ defineCacheKeyGenerator }) {
    files = await bundle();
    const names = [...files.values()].join();
    // A module that vitest has kept since an earlier run names the bundle of that run.
    defineCacheKeyGenerator(({ sourceCode }) => (sourceCode.includes("import.meta.url") ? names : undefined));
  },
  transform(code, id) {
    if (!id.startsWith(join(root, "src")) || !code.includes("import.meta.url")) return;
    return code.replaceAll(/new URL\("(\.[^"]+)", import\.meta\.url\)/g, (whole, path: string) => {
      const file = files.get(resolve(id, "..", path));
      return file === undefined ? whole : `new URL("${pathToFileURL(file).href}")`;
    });
  },
};
