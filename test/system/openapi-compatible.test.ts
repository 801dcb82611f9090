/** A change that would break users of the published document is noticed, whatever it is; one that adds to answers is not. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { openApiDocument } from "../harness/openapi.ts";

const root = join(import.meta.dirname, "../..");
const candidate = join(folderForFile("openapi"), "candidate.json");
/** The first run compiles the tool. */
const timeout = 300_000;

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
type Any = any;

/** What `npm run openapi:check` says of the document with the changes. */
async function check(...changes: ((document: Any) => void)[]): Promise<{ status: number; output: string }> {
  const document = structuredClone(openApiDocument);
  for (const change of changes) change(document);
  await writeFile(candidate, JSON.stringify(document));
  return new Promise((resolve) => {
    const script = join(root, "scripts/openapi-compatible.ts");
    execFile(process.execPath, [script, candidate], { cwd: root }, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

/** Changes by the rule that they break. */
const breaking: Readonly<Record<string, (document: Any) => void>> = {
  "api-path-removed": ({ paths }) => delete paths["/v1/sdk/whoami"],
  "response-property-became-optional": ({ components }) => components.schemas.Caller.required.pop(),
  "request-property-max-length-decreased": ({ components }) => {
    components.schemas.WorkloadDescriptor.properties.component.maxLength = 255;
  },
  "request-property-enum-value-removed": ({ components }) => components.schemas.KeyAccessOperation.enum.pop(),
  "request-property-became-not-nullable": ({ components }) => {
    components.schemas.PlanProtectionRequest.properties.purpose.type = "string";
  },
};

test("every change that breaks callers is named", { timeout }, async () => {
  const { status, output } = await check(...Object.values(breaking));
  expect(status).toBe(1);
  for (const rule of Object.keys(breaking)) expect(output).toContain(rule);
});

test("a new member of answers breaks no client", { timeout }, async () => {
  const added = await check(({ components: { schemas } }) => {
    schemas.Caller.properties.added = { type: "string" };
    schemas.Caller.required.push("added");
  });
  expect(added).toMatchObject({ status: 0 });
});
