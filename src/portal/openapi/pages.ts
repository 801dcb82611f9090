/** `/openapi.json` and `/openapi.yaml`. */

import { stringify } from "yaml";
import type { JsonObject } from "../../base/json.ts";
import { fixed, type Page } from "../../transport/http/page.ts";
import { createOpenApiDocument, type DocumentOptions } from "./document.ts";

/** The document in both forms, made on the first request of each. */
export function documentPages(options: DocumentOptions): readonly Page[] {
  let made: JsonObject | undefined;
  const document = () => {
    made ??= createOpenApiDocument(options);
    return made;
  };
  return [
    fixed("/openapi.json", () => ({ type: "application/json", body: Buffer.from(toJsonText(document())) })),
    // RFC 9512
    fixed("/openapi.yaml", () => ({ type: "application/yaml", body: Buffer.from(toYamlText(document())) })),
  ];
}

/** JSON, indented for people who read it. */
export function toJsonText(document: JsonObject): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** YAML of the same values. No aliases: many readers of OpenAPI do not follow them. */
export function toYamlText(document: JsonObject): string {
  // Through JSON, so that what occurs twice is written twice and what is undefined is left out.
  return stringify(JSON.parse(JSON.stringify(document)), { aliasDuplicateObjects: false, lineWidth: 110 });
}
