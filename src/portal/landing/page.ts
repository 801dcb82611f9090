/** `/`: where to go from here, for people and for machines. */
import { createHash } from "node:crypto";
import type { Content, Page } from "../../transport/http/page.ts";
import { landingHtml, style } from "./html.ts";
import { prefersJson } from "./prefers-json.ts";

export interface LandingOptions {
  readonly service: string;
  readonly version: string;
  readonly explorer: boolean;
  readonly documentationUrl?: string;
  readonly isReady: () => boolean;
}

/** Links of the page. They are relative, so that they hold behind any path prefix. */
export interface Links {
  readonly explorer?: string;
  readonly openapi_json?: string;
  readonly openapi_yaml?: string;
  readonly documentation?: string;
}

/** What the page says. */
export interface Landing {
  readonly service: string;
  readonly version: string;
  /** `ready` where everything that the service needs is in force now. */
  readonly status: "ready" | "not_ready";
  readonly links: Links;
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
