/** The document as the two texts that are published. */
import { stringify } from "yaml";
import type { JsonObject } from "../../base/json.ts";

/** JSON, indented for people who read it. */
export function toJsonText(document: JsonObject): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** YAML of the same values. No aliases: many readers of OpenAPI do not follow them. */
export function toYamlText(document: JsonObject): string {
  // Through JSON, so that what occurs twice is written twice and what is undefined is left out.
  return stringify(JSON.parse(JSON.stringify(document)), { aliasDuplicateObjects: false, lineWidth: 110 });
}
