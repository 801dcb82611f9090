/** `/`: where to go from here, for people and for machines. */
import { createHash } from "node:crypto";
import type { Content, Page } from "../../transport/http/page.ts";
import { type Landing, type Links, landingHtml, style } from "./html.ts";

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

/**
 * Whether an `Accept` header asks for JSON rather than HTML (RFC 9110 §12.5.1). Without a preference it does not: a
 * person's browser always says `text/html`, and a bare `curl` is read by a person too.
 *
 * Does not weigh other parameters than `q`, which neither type has here.
 */
export function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const ranges = accept.split(",").map(parseRange);
  return quality(ranges, "application", "json") > quality(ranges, "text", "html");
}

interface Range {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
}

function parseRange(text: string): Range {
  const [name = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const [type = "", subtype = ""] = name.split("/");
  const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
  return { type, subtype, quality: weight === undefined ? 1 : Number(weight) || 0 };
}

/** Quality of a type: that of the most specific range that covers it. */
function quality(ranges: readonly Range[], type: string, subtype: string): number {
  const exact = ranges.find((range) => range.type === type && range.subtype === subtype);
  const family = ranges.find((range) => range.type === type && range.subtype === "*");
  const any = ranges.find((range) => range.type === "*" && range.subtype === "*");
  return (exact ?? family ?? any)?.quality ?? 0;
}
