import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import comments from "../../../../gen/comments.json" with { type: "json" };
import { defaultDocuments } from "../../../../scripts/openapi-document.ts";
import { routes } from "../../../../src/domain/routes.ts";
import { toJsonText, toYamlText } from "../../../../src/portal/documents.ts";

const committed = (name: string) => readFileSync(join(import.meta.dirname, "../../../../gen", name), "utf8");

test.each(Object.entries(defaultDocuments(comments)))(
  "the committed %s is what the code says now",
  (name, document) => {
    expect(toJsonText(document)).toBe(committed(`${name}.json`));
    expect(toYamlText(document)).toBe(committed(`${name}.yaml`));
  },
);

test("it has the eight public routes and no other", () => {
  const { paths } = JSON.parse(committed("openapi.json"));
  expect(Object.keys(paths)).toEqual(routes.map(({ path }) => path));
  expect(committed("openapi.json")).not.toMatch(/sdk\/session|client_secret"/);
});

test("it has nothing of which public generators make clients that do not compile, or refuse what they get", () => {
  const found: string[] = [];
  const note = (path: string, value: unknown) => {
    if (typeof value !== "object" || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      const isUnion = ["oneOf", "anyOf", "allOf"].includes(name);
      if (isUnion || (name === "const" && typeof inner !== "string")) found.push(`${path}/${name}`);
      note(`${path}/${name}`, inner);
    }
  };
  note("", JSON.parse(committed("openapi.json")));
  expect(found).toEqual([]);
});

test("a comment that is missing is an error, not a member without a description", () => {
  const { "platform.sdk.v1.Caller.subject": _gone, ...others } = comments;
  expect(() => defaultDocuments(others)).toThrow("platform.sdk.v1.Caller.subject has no comment");
});
