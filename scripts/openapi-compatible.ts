/**
 * Fails if the OpenAPI document breaks callers of the published one (`api/published-openapi.json`): a removed route,
 * member or enum value, a tighter limit, a new required member. The comparison is oasdiff's, at a pinned version, which
 * Go fetches and verifies against its checksum database.
 *
 * Usage: node scripts/openapi-compatible.ts [candidate, default gen/openapi.json]
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const candidate = process.argv[2] ?? join(root, "gen/openapi.json");
const oasdiff = "github.com/oasdiff/oasdiff@v1.30.0";

// Warnings are changes that break some callers, such as a narrower pattern, so they fail too.
const options = ["breaking", "--fail-on", "WARN", join(root, "api/published-openapi.json"), candidate];
try {
  execFileSync("go", ["run", oasdiff, ...options], {
    stdio: "inherit",
    env: { ...process.env, GOFLAGS: "-mod=mod", OASDIFF_NO_TELEMETRY: "1" },
  });
} catch (error) {
  const { status } = error as { status?: number | null };
  if (typeof status !== "number") throw error;
  process.exitCode = 1;
}
