/** A policy directory as texts by path, such as `default/handling.cedar`: copied from a file system, and read as one. */
import { join, relative, sep } from "node:path";
import { loadPolicyTests, type PolicyFileSystem, type PolicySettings, readPolicyDirectory } from "./directory.ts";

export type FileTexts = Readonly<Record<string, string>>;

/** Copies the files that a service reads of the directory, and its tests, in the order of their paths. */
export async function copyPolicyFiles(
  directory: string,
  fileSystem: PolicyFileSystem,
  settings: PolicySettings,
): Promise<FileTexts> {
  const texts = new Map<string, string>();
  const asked = new Map<string, string>();
  const root = await fileSystem.realpath(directory);
  const noting: PolicyFileSystem = {
    readdir: (path) => fileSystem.readdir(path),
    stat: (path) => fileSystem.stat(path),
    // Orchestrators mount files with links: their names in the directory count.
    async realpath(path) {
      const real = await fileSystem.realpath(path);
      asked.set(real, path);
      return real;
    },
    async readFile(path) {
      const bytes = await fileSystem.readFile(path);
      const name = relative(root, asked.get(path) ?? path).replaceAll(sep, "/");
      texts.set(name, new TextDecoder().decode(bytes));
      return bytes;
    },
  };
  await readPolicyDirectory(root, noting, settings);
  await loadPolicyTests(root, noting);
  return Object.fromEntries([...texts].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** A file system of these files alone, whose directory is `/`. */
export function fileSystemOf(files: FileTexts): PolicyFileSystem {
  const texts = new Map(Object.entries(files).map(([path, text]) => [join("/", path), text]));
  const childrenOf = (path: string) => {
    const folder = path === sep ? sep : path + sep;
    const below = [...texts.keys()].filter((name) => name.startsWith(folder));
    return [...new Set(below.map((name) => name.slice(folder.length).split(sep, 1)[0] as string))];
  };
  const found = (path: string): string => {
    if (!texts.has(path) && childrenOf(path).length === 0) throw Object.assign(new Error(), { code: "ENOENT" });
    return path;
  };
  return {
    async readdir(path) {
      if (texts.has(path)) throw Object.assign(new Error(), { code: "ENOTDIR" });
      return childrenOf(found(path));
    },
    realpath: async (path) => found(path),
    readFile: async (path) => Buffer.from(texts.get(found(path)) ?? "", "utf8"),
    async stat(path) {
      const text = texts.get(found(path));
      return { isFile: () => text !== undefined, isDirectory: () => text === undefined, size: text?.length ?? 0 };
    },
  };
}
