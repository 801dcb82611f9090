/** Every page of a deployment. */
import type { JsonObject } from "../base/json.ts";
import { fixed, type Page } from "../transport/rest/page.ts";
import { explorerPages } from "./explorer.ts";
import { landingPage } from "./landing.ts";
import type { DocumentOptions } from "./openapi/document.ts";

export interface PublishedOptions extends Omit<DocumentOptions, "comments"> {
  /** Whether the document and the explorer are served. */
  readonly explorer: boolean;
  /** URL of the documentation; the explorer if absent. */
  readonly documentationUrl?: string;
  /**
   * Whether everything that the service needs is in force now. Called for every landing page: must be cheap, and never
   * throws.
   */
  readonly isReady: () => boolean;
  /** Documents of the APIs that are served beside the SDK's. Default: none. */
  readonly further?: readonly FurtherDocument[];
}

/** The document of an API beside the SDK's, at `/openapi-<name>.json` and `.yaml`. */
export interface FurtherDocument {
  readonly name: string;
  /** Called on the first request. */
  create(options: DocumentOptions): JsonObject;
}

/** Makes the pages. They are loaded and generated on the first request. */
export function publishedPages(options: PublishedOptions): readonly Page[] {
  const landing = landingPage(options);
  if (!options.explorer) return [landing];
  return [landing, ...documentPages(options), ...explorerPages(options)];
}

function documentPages(options: PublishedOptions): readonly Page[] {
  return [
    ...pagesOf("openapi", options),
    ...(options.further ?? []).flatMap(({ name, create }) => pagesOf(`openapi-${name}`, options, create)),
  ];
}

function pagesOf(name: string, options: PublishedOptions, create?: FurtherDocument["create"]): readonly Page[] {
  const texts = async () => {
    const [{ documentTexts }, { default: comments }] = await Promise.all([
      import("./openapi/texts.ts"),
      import("../../gen/comments.json", { with: { type: "json" } }),
    ]);
    return documentTexts({ ...options, comments }, create);
  };
  let made: ReturnType<typeof texts> | undefined;
  const document = () => {
    made ??= texts();
    return made;
  };
  return [
    fixed(`/${name}.json`, async () => ({ type: "application/json", body: (await document()).json() })),
    // RFC 9512
    fixed(`/${name}.yaml`, async () => ({ type: "application/yaml", body: (await document()).yaml() })),
  ];
}
