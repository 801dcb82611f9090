/** Every page of a deployment. */
import { fixed, type Page } from "../transport/http/page.ts";
import { explorerPages } from "./explorer.ts";
import { landingPage } from "./landing.ts";
import type { DocumentOptions } from "./openapi/document.ts";

export interface PublishedOptions extends Omit<DocumentOptions, "comments"> {
  /** Whether the document and the explorer are served. */
  readonly explorer: boolean;
  /** Where people find the documentation; the explorer where absent. */
  readonly documentationUrl?: string;
  /** Whether everything that the service needs is in force now. Called for every landing page: cheap, never throws. */
  readonly isReady: () => boolean;
}

/** Makes the pages. Nothing is loaded, read or generated until somebody asks for it. */
export function publishedPages(options: PublishedOptions): readonly Page[] {
  const landing = landingPage(options);
  if (!options.explorer) return [landing];
  return [landing, ...documentPages(options), ...explorerPages(options)];
}

function documentPages(options: PublishedOptions): readonly Page[] {
  const texts = async () => {
    const [{ documentTexts }, { default: comments }] = await Promise.all([
      import("./openapi/texts.ts"),
      import("../../gen/comments.json", { with: { type: "json" } }),
    ]);
    return documentTexts({ ...options, comments });
  };
  let made: ReturnType<typeof texts> | undefined;
  const document = () => {
    made ??= texts();
    return made;
  };
  return [
    fixed("/openapi.json", async () => ({ type: "application/json", body: (await document()).json() })),
    // RFC 9512
    fixed("/openapi.yaml", async () => ({ type: "application/yaml", body: (await document()).yaml() })),
  ];
}
