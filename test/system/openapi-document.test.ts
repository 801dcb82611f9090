/**
 * The published document: two public linters, each with the strictest of its rule sets, find nothing to say about it, and
 * a change that would break its users is noticed, whatever it is.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import spectralCore, { type ISpectralDiagnostic } from "@stoplight/spectral-core";
import owasp from "@stoplight/spectral-owasp-ruleset";
import { oas } from "@stoplight/spectral-rulesets";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { openApiDocument } from "../harness/openapi.ts";
import { runProgram } from "../harness/process.ts";
import { startCommand } from "./clients-programs.ts";

const root = join(import.meta.dirname, "../..");

/** Rules that ask for what this service does not have, or cannot know. */
const notOurs = {
  // No route but artifact-register limits rates, and none sends RateLimit headers.
  "owasp:api4:2023-rate-limit": "off",
  "owasp:api4:2023-rate-limit-responses-429": "off",
  // Browsers of other origins are not callers: there is no CORS header to describe.
  "owasp:api8:2023-define-cors-origin": "off",
  // One document for every deployment: which environment it is, its operator knows.
  "owasp:api9:2023-inventory-access": "off",
  "owasp:api9:2023-inventory-environment": "off",
  // The operator's address is not known, and the licence is named by its identifier instead of an address.
  "contact-properties": "off",
  "license-url": "off",
} as const;

/** Rules that guard a service against its callers. Answers are its own, and as long as what they tell. */
const ofRequests = new Set([
  "owasp:api4:2023-array-limit",
  "owasp:api4:2023-string-limit",
  "owasp:api4:2023-string-restricted",
]);

async function spectral(document: unknown): Promise<ISpectralDiagnostic[]> {
  const linter = new spectralCore.Spectral();
  linter.setRuleset({
    extends: [
      [oas, "all"],
      [owasp, "all"],
    ],
    rules: notOurs,
  } as never);
  const findings = await linter.run(document as never);
  return findings.filter(({ code, path }) => !ofRequests.has(String(code)) || path.includes("requestBody"));
}

test("Spectral: all OpenAPI and OWASP rules", async () => {
  const findings = await spectral(openApiDocument);
  expect(findings.map(({ code, path, message }) => `${code} ${path.join(".")} ${message}`)).toEqual([]);
});

test.each(["openapi.json", "openapi.yaml"])("Redocly recommended-strict: %s", async (name) => {
  const args = ["lint", "--extends", "recommended-strict", "--format", "json", join("gen", name)];
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const output = await runProgram(join(root, "node_modules/.bin/redocly"), args, { cwd: root, env });
  expect(JSON.parse(output)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } });
});

const candidate = join(folderForFile("openapi"), "candidate.json");
/** The first run compiles the tool. */
const timeout = 300_000;

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
type Any = any;

/** What `npm run openapi:check` says of the document with the changes. */
async function check(...changes: ((document: Any) => void)[]) {
  const document = structuredClone(openApiDocument);
  for (const change of changes) change(document);
  await writeFile(candidate, JSON.stringify(document));
  const command = [process.execPath, "scripts/openapi-compatible.ts", candidate] as const;
  const { code, stdout, stderr } = await startCommand(command, {}).done;
  return { code, output: stdout + stderr };
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
  const { code, output } = await check(...Object.values(breaking));
  expect(code).toBe(1);
  for (const rule of Object.keys(breaking)) expect(output).toContain(rule);
});

test("a new member of answers breaks no client", { timeout }, async () => {
  const added = await check(({ components: { schemas } }) => {
    schemas.Caller.properties.added = { type: "string" };
    schemas.Caller.required.push("added");
  });
  expect(added).toMatchObject({ code: 0 });
});
