/** The packages' own checks and tests, and what the archives of the Java package hold. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../harness/process.ts";
import { archiveOf } from "./clients-builds.ts";
import { root } from "./clients-deployment.ts";

const timeout = 900_000;

// What builds the Java package does so too.
test.each(["go", "python", "rust"] as const)(
  "the package for %s is formatted, without a warning, and passes its own tests",
  { timeout },
  async (language) => {
    archiveOf(language);
    await runProgram(join(root, "clients", language, "check.sh"), []);
  },
);

test("every public class of the Java package has its documentation and its source in an archive", {
  timeout,
}, async () => {
  const archive = archiveOf("java");
  const [classes, sources, pages] = await Promise.all(
    ["", "-sources", "-javadoc"].map(async (kind) =>
      (await runProgram("jar", ["--list", "--file", archive.replace(/\.jar$/, `${kind}.jar`)])).split("\n"),
    ),
  );
  const names = "PlatformClient ClientCredentials DpopKey PlatformException Receipts ResumingStream".split(" ");
  for (const name of names) {
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
