/** `/`: links for people and for machines. */
import { createHash } from "node:crypto";
import type { Content, Page } from "../transport/rest/page.ts";

/** Links of the page. They are relative, so that they work behind any path prefix. */
export interface Links {
  readonly explorer?: string;
  readonly openapi_json?: string;
  readonly openapi_yaml?: string;
  readonly documentation?: string;
}

/** Content of the page. */
export interface Landing {
  readonly service: string;
  readonly version: string;
  /** `ready` if everything that the service needs is in force now. */
  readonly status: "ready" | "not_ready";
  readonly links: Links;
}

/** Style of the page; the content security policy contains its hash. */
export const style = `
:root { color-scheme: light dark; --ink: #16202b; --soft: #52606d; --line: #d5dce4; --link: #0b57a4; --card: #fff; --page: #f5f7f9; --good: #17663a; --bad: #a32b1d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #a3afbb; --line: #323c46; --link: #82bdff; --card: #1c242c; --page: #12181e; --good: #73d49b; --bad: #ff9d8f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 44rem; margin: 0 auto; padding: 3rem 1.25rem; }
h1 { margin: 0; font-size: 1.75rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; }
.soft { color: var(--soft); }
.ready { color: var(--good); font-weight: 600; }
.not_ready { color: var(--bad); font-weight: 600; }
ul { list-style: none; margin: 2rem 0; padding: 0; display: grid; gap: .75rem; }
li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1.1rem; }
a { color: var(--link); font-weight: 600; }
a:focus-visible { outline: 3px solid var(--link); outline-offset: 3px; border-radius: 2px; }
code { font: .9em ui-monospace, monospace; }
`;

const statusText = { ready: "ready", not_ready: "not ready" } as const;

export function landingHtml({ service, version, status, links }: Landing): string {
  const name = escapeHtml(service);
  const items = [
    links.explorer && item(links.explorer, "Explorer", "Read every route, and call it with your own token."),
    links.openapi_json &&
      `<li><a href="${escapeHtml(links.openapi_json)}">OpenAPI document</a> (or <a href="${escapeHtml(links.openapi_yaml ?? "")}">as YAML</a>)<p class="soft">The contract: schemas, limits, errors and examples, for generators and people.</p></li>`,
    `<li><strong>Health</strong>: <span class="${status}">${statusText[status]}</span><p class="soft">Operators find <code>/livez</code> and <code>/readyz</code> on the operator listener.</p></li>`,
    links.documentation &&
      item(links.documentation, "Documentation", "How to get a token, make a call and handle errors."),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${name}</title>
<link rel="icon" href="${icon}">
<style>${style}</style>
</head>
<body>
<main>
<h1>${name}</h1>
<p>Decides whether workloads may protect, access or rewrap data, and how they enforce it themselves. It sees metadata only: plaintext never reaches it.</p>
<p class="soft">Version ${escapeHtml(version)} · routes under <code>/v1/sdk/</code> · gRPC, gRPC-Web and Connect on the same address</p>
<ul>
${items.filter((text) => text !== undefined).join("\n")}
</ul>
</main>
</body>
</html>
`;
}

function item(href: string, title: string, text: string): string {
  return `<li><a href="${escapeHtml(href)}">${title}</a><p class="soft">${text}</p></li>`;
}

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

/** The page: HTML, or JSON for clients that prefer it. */
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
 * Whether an `Accept` header prefers JSON to HTML (RFC 9110 §12.5.1). Without a preference it does not: browsers always
 * send `text/html`, and the output of a bare `curl` is read by a person too.
 *
 * Ignores parameters other than `q`, which neither type has here.
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

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Escapes text for use between tags and in a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] as string);
}

/** A shield, as a data URL: browsers request `/favicon.ico` if a page names no icon. */
export const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230b57a4' " +
  "d='M8 1 2 3v5c0 3.5 2.5 6 6 7 3.500-1 6-3.500 6-7V3z'/%3E%3C/svg%3E";
