/** The Java package: its own tests, and what its archives hold. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { root } from "./clients-deployment.ts";
import { buildClient } from "./clients-programs.ts";

const timeout = 600_000;
const source = join(root, "clients/java");
const archives = ["", "-sources", "-javadoc"].map((kind) => `platform-client-0.1.0${kind}.jar`);

// Its own tests run too, and a warning of the compiler or of javadoc is an error.
beforeAll(() => buildClient("java"), timeout);

const run = async (command: string, args: readonly string[]) => (await promisify(execFile)(command, [...args])).stdout;

test("every class that is public has its documentation in the archive, and its source", { timeout }, async () => {
  const [classes, sources, pages] = await Promise.all(
    archives.map(async (archive) =>
      (await run("jar", ["--list", "--file", join(source, "target", archive)])).split("\n"),
    ),
  );
  for (const name of [
    "PlatformClient",
    "ClientCredentials",
    "DpopKey",
    "PlatformException",
    "Receipts",
    "ResumingStream",
  ]) {
    expect(classes).toContain(`platform/client/${name}.class`);
    expect(sources).toContain(`platform/client/${name}.java`);
    expect(pages).toContain(`platform/client/${name}.html`);
  }
  expect(sources).toContain("platform/sdk/v1/Receipt.java");
  expect(sources).toContain("platform/bulk/v1/EventItem.java");
  // Neither other people's definitions, which other packages bring, nor the service that is not public.
  const foreign = classes?.filter((name) => name.endsWith(".class") && !name.startsWith("platform/"));
  expect(foreign).toEqual([]);
  expect(classes?.filter((name) => name.includes("Session"))).toEqual([]);
});
