/** The schemas that editors check files with accept what the project ships and documents, and refuse mistakes. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { expect, test } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../..");
const textOf = (file: string) => readFileSync(join(root, file), "utf8");
const filesIn = (folder: string) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);
/** The YAML blocks of a page that begin with a member. */
const blocksOf = (page: string, begin: string) =>
  [...textOf(page).matchAll(/^( *)```yaml[^\n]*\n([\s\S]*?)^ *```/gm)]
    .map(([, indent = "", text = ""]) => text.replaceAll(RegExp(`^${indent}`, "gm"), ""))
    .filter((text) => RegExp(`^${begin}`, "m").test(text));

function problems(schema: string, content: unknown): readonly string[] {
  const validate = new Ajv({ allowUnionTypes: true, strictRequired: false }).compile(
    JSON.parse(textOf(`api/schemas/${schema}.schema.json`)),
  );
  return validate(content)
    ? []
    : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

const cookbook = "docs/how-to/policy-cookbook.md";
const block = (schema: string, page: string, begin: string) =>
  blocksOf(page, begin).map((text, at) => [schema, `block ${at + 1} of ${page}`, text] as const);
const good = [
  ["settings", "deploy/systemd/settings.yaml", textOf("deploy/systemd/settings.yaml")],
  ["policy-manifest", "policies/manifest.yaml", textOf("policies/manifest.yaml")],
  ...block("policy-manifest", cookbook, "platform:"),
  ...block("policy-manifest", "docs/how-to/use-entities.md", "platform:"),
  ...filesIn("policies/tests").map((file) => ["policy-tests", file, textOf(file)] as const),
  ...block("policy-tests", cookbook, "- name:"),
  ...block("quotas", "docs/quotas.md", "default:"),
  ...block("issuers", "docs/how-to/set-up-authentication.md", "issuers:"),
  ...block("console-sign-in", "docs/how-to/use-the-console.md", "issuer:"),
] as const;

test.each(good)("the schema %s accepts %s", (schema, _file, text) => {
  expect(problems(schema, parse(text))).toEqual([]);
});

test("files of each kind exist", () => {
  const kinds = ["settings", "policy-manifest", "policy-tests", "quotas", "issuers", "console-sign-in"];
  expect([...new Set(good.map(([schema]) => schema))]).toEqual(kinds);
});

test.each([
  ["settings", { SVC_LISTENS: "127.0.0.1:1" }],
  ["settings", { SVC_AUTH_MODE: "basic" }],
  ["policy-manifest", { platform: "p", tenants: {}, action: {} }],
  ["policy-manifest", { platform: "p", tenants: {}, caller_attributes: { a: { type: "number" } } }],
  ["policy-tests", [{ name: "a", tenant: "t", action: "read", claimed: {}, expect: { allow: true } }]],
  ["quotas", { default: { requests: { limit: 0, period_seconds: 60 } } }],
  ["issuers", { issuers: { "https://id.example.com": { tenants: { fixed: "a", list: ["b"] } } } }],
  ["console-sign-in", { issuer: "https://id.example.com", client_id: "console", url: "https://ops.example.com" }],
])("the schema %s refuses %j", (schema, content) => {
  expect(problems(schema, content)).not.toEqual([]);
});
