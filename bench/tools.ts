import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The programs that the measurements need, and the Debian package of each. */
const packages = { wrk: "wrk", h2load: "nghttp2-client", taskset: "util-linux" } as const;

/** Throws, naming every program that is not on the PATH and the package that has it. */
export function requireTools(...names: readonly (keyof typeof packages)[]): void {
  const missing = names.filter((name) => !isOnPath(name));
  if (missing.length === 0) return;
  const wanted = missing.map((name) => `${name} (Debian package ${packages[name]})`);
  throw new Error(`This measurement needs ${wanted.join(", ")}.`);
}

function isOnPath(name: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
