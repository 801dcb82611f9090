/** The Rust crate: what its sources have to pass. */
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, test } from "vitest";
import { root } from "./clients-deployment.ts";

const timeout = 900_000;
const source = join(root, "clients/rust");

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  execFileSync(join(source, "build.sh"));
}, timeout);

test("is formatted, without a warning, documented, and passes its own tests", { timeout }, async () => {
  await promisify(execFile)(join(source, "check.sh"));
});
