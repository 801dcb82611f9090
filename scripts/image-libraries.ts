/** The shared Debian libraries that programs load, with their packages. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync } from "node:fs";

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
}

export interface Library {
  /** Absolute path at which the loader looks for it. */
  readonly path: string;
  readonly sha256: string;
  readonly debianPackage: DebianPackage;
  /** File with its licences. */
  readonly copyright: string;
}

/** Libraries that the programs load, and the loader. Throws if one is missing or belongs to no package. */
export function librariesOf(programs: readonly string[]): readonly Library[] {
  const said = execFileSync("ldd", [...programs], { encoding: "utf8" });
  if (said.includes("not found")) throw new Error(`a shared library is missing:\n${said}`);
  // `name => path (address)`, and `path (address)` of the loader.
  const paths = [...said.matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)].map(([, path = ""]) => path);
  return [...new Set(paths)].map(library);
}

function library(path: string): Library {
  const debianPackage = ownerOf(path);
  const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
  return { path, sha256, debianPackage, copyright: `/usr/share/doc/${debianPackage.name}/copyright` };
}

/** The package database lists a file by one of its names: /lib may be a link to /usr/lib. */
function ownerOf(path: string): DebianPackage {
  const real = realpathSync(path);
  for (const name of [path, `/usr${path}`, real, real.replace(/^\/usr/, "")]) {
    const owner = query("-S", name)?.split(": ", 1)[0];
    if (owner === undefined || !existsSync(name)) continue;
    const fields = ["Package", "Version", "Architecture"].map((field) => query("-W", `-f=\${${field}}`, owner));
    const [packageName, version, architecture] = fields;
    if (packageName !== undefined && version !== undefined && architecture !== undefined)
      return { name: packageName, version, architecture };
  }
  throw new Error(`${path} is of no Debian package`);
}

function query(...args: string[]): string | undefined {
  try {
    return execFileSync("dpkg-query", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new Error("dpkg-query is needed: build on Debian");
    return undefined;
  }
}
