/** The document breaks no user of the published one, and a change that would is noticed. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openApiDocument } from "../harness/openapi.ts";

const root = join(import.meta.dirname, "../..");

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
type Any = any;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-openapi-"));
  // The first run compiles the tool.
  await check();
}, 300_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

function check(...candidate: string[]): Promise<{ status: number; output: string }> {
  return new Promise((resolve) => {
    const script = join(root, "scripts/openapi-compatible.ts");
    execFile(process.execPath, [script, ...candidate], { cwd: root }, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

test("the document is compatible", async () => {
  expect(await check()).toMatchObject({ status: 0 });
});

const breaking: [string, string, (document: Any) => void][] = [
  ["a route is gone", "api-path-removed", ({ paths }) => delete paths["/v1/sdk/whoami"]],
  [
    "a member of answers may be absent",
    "response-property-became-optional",
    ({ components }) => components.schemas.Caller.required.pop(),
  ],
  [
    "a limit is tighter",
    "request-property-max-length-decreased",
    ({ components }) => {
      components.schemas.WorkloadDescriptor.properties.component.maxLength = 255;
    },
  ],
  [
    "a word of an enumeration is gone",
    "request-property-enum-value-removed",
    ({ components }) => components.schemas.KeyAccessOperation.enum.pop(),
  ],
  [
    "null is no longer taken for an absent member",
    "request-property-became-not-nullable",
    ({ components }) => {
      components.schemas.PlanProtectionRequest.properties.purpose.type = "string";
    },
  ],
];
test.each(breaking)("%s: %s", async (_what, rule, change) => {
  const document = structuredClone(openApiDocument);
  change(document);
  const path = join(folder, "candidate.json");
  await writeFile(path, JSON.stringify(document));
  const { status, output } = await check(path);
  expect(status).toBe(1);
  expect(output).toContain(rule);
});

test("a member that is added to answers breaks no client", async () => {
  const document = structuredClone(openApiDocument);
  document.components.schemas.Caller.properties.added = { type: "string" };
  document.components.schemas.Caller.required.push("added");
  const path = join(folder, "candidate.json");
  await writeFile(path, JSON.stringify(document));
  expect(await check(path)).toMatchObject({ status: 0 });
});
