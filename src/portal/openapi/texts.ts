/** The OpenAPI document as JSON and as YAML. */
import { stringify } from "yaml";
import type { JsonObject } from "../../base/json.ts";
import { createOpenApiDocument, type DocumentOptions } from "./document.ts";

/** Makes the document; each form is made on first use. */
export function documentTexts(
  options: DocumentOptions,
  create: (options: DocumentOptions) => JsonObject = createOpenApiDocument,
): { readonly json: () => Buffer; readonly yaml: () => Buffer } {
  const document = create(options);
  return {
    json: () => Buffer.from(toJsonText(document)),
    yaml: () => Buffer.from(toYamlText(document)),
  };
}

/** JSON, indented for readers. */
export function toJsonText(document: JsonObject): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** YAML of the same values. No aliases: many readers of OpenAPI do not follow them. */
export function toYamlText(document: JsonObject): string {
  // Through JSON, so that repeated values are written out and undefined ones omitted.
  return stringify(JSON.parse(JSON.stringify(document)), { aliasDuplicateObjects: false, lineWidth: 110 });
}
