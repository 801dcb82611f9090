/**
 * Checks the contract: it passes `buf lint`, it is compatible with the published contract (`proto/published.binpb`),
 * and `gen/` is what `buf generate` makes of it.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const out = mkdtempSync(join(tmpdir(), "proto-check-"));
const run = (command: string, ...args: string[]) => execFileSync(command, args, { stdio: "inherit" });
try {
  run("buf", "lint");
  run("buf", "format", "--diff", "--exit-code", "proto");
  run("buf", "breaking", "proto", "--exclude-imports", "--against", "proto/published.binpb");
  run("buf", "generate", "--output", out);
  run("buf", "build", "proto", "--exclude-source-info", "-o", join(out, "gen/image.binpb"));
  run("node", "scripts/openapi.ts", join(out, "gen"));
  run("node", "scripts/record-relations.ts", join(out, "gen"));
  run("diff", "--recursive", "gen", join(out, "gen"));
} finally {
  rmSync(out, { recursive: true, force: true });
}
