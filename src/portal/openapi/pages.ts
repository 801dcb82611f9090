/** `/openapi.json` and `/openapi.yaml`. */
import type { JsonObject } from "../../base/json.ts";
import { fixed, type Page } from "../../transport/http/page.ts";
import { createOpenApiDocument, type DocumentOptions } from "./document.ts";
import { toJsonText, toYamlText } from "./text.ts";

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
