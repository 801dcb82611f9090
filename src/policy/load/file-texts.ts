/** A policy directory of texts, read as one of a file system. */
import { join, sep } from "node:path";
import type { FileTexts, PolicyFileSystem } from "./directory.ts";

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
