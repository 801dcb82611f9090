/** The request schemas against the code that reads requests: what one accepts the other does, and the reverse. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { publicServices, servedMethods } from "../../../../src/transport/calls/methods.ts";
import { readJson } from "../../../../src/transport/codec/json-reader.ts";
import { rulesOf } from "../../../../src/transport/codec/rules.ts";
import { openApiDocument, validatorOf } from "../../../harness/openapi.ts";

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
type Any = any;

const methods = servedMethods(
  publicServices.map((desc) => ({
    desc,
    impl: Object.fromEntries(desc.methods.map(({ localName }) => [localName, () => ({})])),
  })),
).filter(({ verb }) => verb === "POST");
/** Whether the service takes the body, as far as the body alone decides. */
async function isTaken(method: (typeof methods)[number], body: string): Promise<boolean> {
  try {
    const message = readJson(method.spec.method.input, body, "rest");
    return rulesOf(method.spec.method.input)(message).length === 0;
  } catch (error) {
    if ((error as { reason?: string }).reason === "invalid_request") return false;
    throw error;
  }
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    "",
    0,
    -1,
    1.5,
    2 ** 53,
    true,
    [],
    {},
    [""],
    [null],
    { a: null },
    { "": "x" },
    "\0",
    "a\n",
  ),
  fc.constantFrom<unknown>("protect", "PROTECT", "tdf", "wrap", "sha256:ab", "sha256:", ":x", "SHA:x", "a:\0", "a:b\n"),
  fc.constantFrom<unknown>("x".repeat(128), "x".repeat(256), "x".repeat(257), "😀".repeat(256), "😀".repeat(257)),
  fc.constantFrom<unknown>(Array(64).fill("x"), Array(65).fill("x"), ["\0"], [1], "x".repeat(1025)),
  fc.constantFrom<unknown>(entries(64), entries(65), { ["k".repeat(129)]: "v" }, { k: "v".repeat(1025) }, { "\0": "" }),
  fc.constantFrom<unknown>({ application: "a" }, { kind: "k" }, { application: "" }, { application: "a", extra: 1 }),
  fc.string({ unit: "binary" }),
  fc.jsonValue(),
);

function entries(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]));
}

test.each(methods.map((method) => [method.restPath, method] as const))(
  "%s takes what its schema allows, and nothing else",
  async (path, method) => {
    const { schema, examples } = openApiDocument.paths[path].post.requestBody.content["application/json"];
    const isAllowed = validatorOf(schema.$ref.slice(1));
    const { properties } = openApiDocument.components.schemas[schema.$ref.split("/").at(-1)];
    const base = Object.values<Any>(examples)[0].value;
    const member = fc.constantFrom(...Object.keys(properties), "plaintext", "contentDigest", "__proto__");
    const verdicts = new Set<boolean>();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(member, odd), { maxLength: 2 }), fc.option(member), async (changes, gone) => {
        const text = JSON.stringify(
          Object.fromEntries([...Object.entries(base), ...changes].filter(([name]) => name !== gone)),
        );
        const taken = await isTaken(method, text);
        verdicts.add(taken);
        // The domain checks timestamps and base64, and lone surrogates are beyond JSON Schema.
        const value = JSON.parse(text);
        fc.pre(!/\\ud[89a-f]/i.test(text));
        fc.pre(typeof value.occurred_at !== "string" && !changes.some(([name]) => name === "artifact_object_b64"));
        expect({ text, taken }).toEqual({ text, taken: isAllowed(value) });
      }),
      { numRuns: 400 },
    );
    expect(verdicts).toEqual(new Set([true, false]));
  },
);
