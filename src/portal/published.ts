/** Every page of a deployment. */
import comments from "../../gen/comments.json" with { type: "json" };
import type { Page } from "../transport/http/page.ts";
import { explorerPages } from "./explorer.ts";
import { landingPage } from "./landing.ts";
import type { DocumentOptions } from "./openapi/document.ts";
import { documentPages } from "./openapi/pages.ts";

export interface PublishedOptions extends Omit<DocumentOptions, "comments"> {
  /** Whether the document and the explorer are served. */
  readonly explorer: boolean;
  /** Where people find the documentation; the explorer where absent. */
  readonly documentationUrl?: string;
  /** Whether everything that the service needs is in force now. Called for every landing page: cheap, never throws. */
  readonly isReady: () => boolean;
}

/** Makes the pages. Nothing is read or generated until somebody asks for it. */
export function publishedPages(options: PublishedOptions): readonly Page[] {
  const landing = landingPage(options);
  if (!options.explorer) return [landing];
  return [landing, ...documentPages({ ...options, comments }), ...explorerPages(options.service)];
}
