/** The Rust crate: what its sources have to pass. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, test } from "vitest";
import { root } from "./clients-deployment.ts";
import { buildClient } from "./clients-programs.ts";

const timeout = 900_000;
const source = join(root, "clients/rust");

beforeAll(() => buildClient("rust"), timeout);

test("is formatted, without a warning, documented, and passes its own tests", { timeout }, async () => {
  await promisify(execFile)(join(source, "check.sh"));
});
