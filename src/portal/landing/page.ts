/** `/`: where to go from here, for people and for machines. */
import { createHash } from "node:crypto";
import type { Content, Page } from "../../transport/http/page.ts";
import { type Landing, type Links, landingHtml, style } from "./html.ts";
import { prefersJson } from "./prefers-json.ts";

export interface LandingOptions {
  readonly service: string;
  readonly version: string;
  readonly explorer: boolean;
  readonly documentationUrl?: string;
  readonly isReady: () => boolean;
}

const styleHash = createHash("sha256").update(style).digest("base64");
const contentSecurityPolicy =
  `default-src 'none'; style-src 'sha256-${styleHash}'; img-src data:; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The page: HTML, or JSON for whoever asks for it. */
export function landingPage(options: LandingOptions): Page {
  const links = linksOf(options);
  return {
    path: "/",
    content({ accept }): Content {
      const { service, version, isReady } = options;
      const landing: Landing = { service, version, status: isReady() ? "ready" : "not_ready", links };
      const headers = { vary: "accept" };
      if (prefersJson(accept)) return { type: "application/json", body: JSON.stringify(landing), headers };
      return {
        type: "text/html; charset=utf-8",
        body: landingHtml(landing),
        headers: { ...headers, "content-security-policy": contentSecurityPolicy },
      };
    },
  };
}

function linksOf({ explorer, documentationUrl }: LandingOptions): Links {
  const documentation = documentationUrl ?? (explorer ? "explorer" : undefined);
  return {
    ...(explorer && { explorer: "explorer", openapi_json: "openapi.json", openapi_yaml: "openapi.yaml" }),
    ...(documentation !== undefined && { documentation }),
  };
}
