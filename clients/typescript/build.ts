/** Compiles the package into `dist`: ES modules with declarations and source maps, and the generated code it needs. */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const folder = import.meta.dirname;
rmSync(join(folder, "dist"), { recursive: true, force: true });
const compiler = createRequire(import.meta.url).resolve("typescript/package.json");
execFileSync(process.execPath, [join(dirname(compiler), "bin/tsc"), "-p", folder], { stdio: "inherit" });
