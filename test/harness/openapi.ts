/** Holds answers to the committed OpenAPI document. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

// biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
type Any = any;

export const openApiDocument: Any = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../gen/openapi.json"), "utf8"),
);

/** Whether a path is one of the document's. */
export function isDocumented(path: string): boolean {
  return Object.hasOwn(openApiDocument.paths, path);
}

const validators = new Map<string, ValidateFunction>();

/**
 * Validator of a schema of the document.
 *
 * @param pointer JSON pointer, such as `/components/schemas/Caller`
 * @param closed whether members that the document does not name are refused in answers too
 */
export function validatorOf(pointer: string, closed = false): ValidateFunction {
  const key = `${closed ? "closed" : "open"}#${pointer}`;
  const known = validators.get(key);
  if (known !== undefined) return known;
  const validator = (closed ? closedAjv : openAjv).compile({ $ref: `document#${pointer}` });
  validators.set(key, validator);
  return validator;
}

const openAjv = ajvOf(openApiDocument);
const closedAjv = ajvOf(close(openApiDocument));

function ajvOf(document: Any): Ajv2020 {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true, allowUnionTypes: true });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  // The document itself is no schema, but where its schemas are found.
  ajv.addVocabulary(["x-additive", ...Object.keys(document)]);
  return ajv.addSchema(document, "document");
}

/** The document with every object schema that lists its members closed to others. */
function close(value: Any): Any {
  if (Array.isArray(value)) return value.map(close);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, close(member)]));
  return value.type === "object" && typeof value.properties === "object" && !("type" in value.properties)
    ? { ...members, additionalProperties: false }
    : members;
}

/** Follows a reference to a component. */
function resolve(value: Any): Any {
  if (typeof value?.$ref !== "string") return value;
  return value.$ref
    .slice(2)
    .split("/")
    .reduce((at: Any, name: string) => at[name], openApiDocument);
}

/** Throws. */
type Fail = (problem: string) => never;

/**
 * Throws where an answer of a JSON route is not in the document: its status, headers, type, every member of its body,
 * and, of a refusal, its reason.
 *
 * @param path one of the document's; each has one operation
 * @param body parsed JSON; undefined for HEAD
 */
export function expectAnswerInDocument(path: string, status: number, headers: Headers, body: unknown): void {
  const { get, post } = openApiDocument.paths[path];
  const fail: Fail = (problem) => {
    throw new Error(`${path} ${status}: ${problem}\n${JSON.stringify(body)}`);
  };
  const response = resolve((get ?? post).responses[String(status)]);
  if (response === undefined) throw fail("status is not in the document");
  for (const [name, reference] of Object.entries<Any>(response.headers)) {
    checkHeader(name, resolve(reference), headers.get(name), fail);
  }
  if (headers.get("content-type") !== "application/json") fail(`type is ${headers.get("content-type")}`);
  if (body === undefined) return;
  const { schema, examples } = response.content["application/json"];
  validate(schema.$ref.slice(1), body, fail);
  const reason = (body as Any).error?.reason;
  if (status !== 200 && !(reason in examples)) fail(`reason ${reason} is not in the document`);
}

function checkHeader(name: string, header: Any, value: string | null, fail: Fail): void {
  if (value === null) {
    if (header.required === true) fail(`header ${name} is missing`);
    return;
  }
  const { type, pattern, minimum } = header.schema;
  if (type === "integer" && !(/^\d+$/.test(value) && Number(value) >= minimum)) fail(`header ${name} is ${value}`);
  if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) fail(`header ${name} is ${value}`);
}

function validate(pointer: string, body: unknown, fail: Fail): void {
  const validator = validatorOf(pointer, true);
  if (!validator(body)) fail(JSON.stringify(validator.errors));
}
