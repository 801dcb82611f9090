import { describe, expect, test } from "vitest";
import { openApiDocument, resolve, validatorOf } from "../../../harness/openapi.ts";

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
type Any = any;

const operations: [string, Any][] = Object.entries<Any>(openApiDocument.paths).map(([path, item]) => [
  path,
  item.get ?? item.post,
]);

function expectValid(schema: Any, value: unknown): void {
  const validator = validatorOf(schema.$ref.slice(1), true);
  expect({ valid: validator(value), errors: validator.errors }).toEqual({ valid: true, errors: null });
}

describe.each(operations)("%s", (_path, operation) => {
  const bodies = [operation.requestBody, ...Object.values(operation.responses)].filter((body) => body !== undefined);

  test("every example validates against its schema", () => {
    const contents = bodies.map((body) => resolve(body).content["application/json"]);
    expect(contents.length).toBeGreaterThan(5);
    for (const { schema, examples } of contents) {
      const values = Object.values<Any>(examples);
      expect(values.length).toBeGreaterThan(0);
      for (const { value } of values) expectValid(schema, value);
    }
  });

  test("an error example has the status and reason that it stands for", () => {
    for (const [status, response] of Object.entries(operation.responses)) {
      if (status === "200") continue;
      for (const [name, { value }] of Object.entries<Any>(resolve(response).content["application/json"].examples)) {
        expect(value.error.reason).toBe(name);
      }
    }
  });

  test("examples of request and answer belong together", () => {
    if (operation.requestBody === undefined) return;
    const names = (body: Any) => Object.keys(body.content["application/json"].examples);
    expect(names(operation.requestBody)).toEqual(names(operation.responses["200"]));
  });
});

test("the examples of members validate too", () => {
  let count = 0;
  for (const [name, schema] of Object.entries<Any>(openApiDocument.components.schemas)) {
    for (const [member, { examples = [] }] of Object.entries<Any>(schema.properties ?? {})) {
      const validator = validatorOf(`/components/schemas/${name}/properties/${member}`);
      for (const example of examples) {
        count += 1;
        expect({ name, member, valid: validator(example) }).toEqual({ name, member, valid: true });
      }
    }
  }
  expect(count).toBeGreaterThan(30);
});
