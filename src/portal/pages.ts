/** Every page of a deployment. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { html, Markup } from "../base/markup.ts";
import type { AuthMode } from "../base/vocabulary.ts";
import { type Content, fixed, type Page } from "../transport/rest/page.ts";
import { type DocumentOptions, documentOf, toJsonText, toYamlText } from "./documents.ts";

export interface PublishedOptions extends DocumentOptions {
  /** Whether the document and the explorer are served. */
  readonly explorer: boolean;
  /**
   * Whether everything that the service needs is in force now. Called for every landing page: must be cheap, and never
   * throws.
   */
  readonly isReady: () => boolean;
  /** Issues access tokens to anyone who opens the explorer: for development stacks only. Default: absent. */
  readonly explorerToken?: (() => Promise<string>) | undefined;
  /** APIs beside the SDK's that have a document, at `/openapi-<name>.json` and `.yaml`. Default: none. */
  readonly further?: readonly FurtherDocument[];
}

/** The document of an API beside the SDK's. */
export interface FurtherDocument {
  /** Name of the API. */
  readonly name: string;
  readonly file: URL;
}

const sdkFile = new URL("../../gen/openapi.json", import.meta.url);

/** Makes the pages. They are loaded and generated on the first request. */
export function publishedPages(options: PublishedOptions): readonly Page[] {
  const landing = landingPage(options);
  if (!options.explorer) return [landing];
  return [landing, ...documentPages(options), ...explorerPages(options)];
}

function documentPages(options: PublishedOptions): readonly Page[] {
  const further = (options.further ?? []).map(({ name, file }) => ({ path: `/openapi-${name}`, file }));
  return [{ path: "/openapi", file: sdkFile }, ...further].flatMap(({ path, file }) => {
    let made: ReturnType<typeof documentOf> | undefined;
    const document = () => {
      made ??= documentOf(file, options);
      return made;
    };
    return [
      fixed(`${path}.json`, async () => ({
        type: "application/json",
        body: Buffer.from(toJsonText(await document())),
      })),
      // RFC 9512
      fixed(`${path}.yaml`, async () => ({
        type: "application/yaml",
        body: Buffer.from(toYamlText(await document())),
      })),
    ];
  });
}

// `/`: links for people and for machines.

/** Links of the page, if there is an explorer. They are relative, so that they work behind any path prefix. */
const explorerLinks = {
  explorer: "explorer",
  openapi_json: "openapi.json",
  openapi_yaml: "openapi.yaml",
  documentation: "explorer",
};

/** Content of the page. */
interface Landing {
  readonly service: string;
  readonly version: string;
  /** `ready` if everything that the service needs is in force now. */
  readonly status: "ready" | "not_ready";
  readonly links: Partial<typeof explorerLinks>;
}

/** Style of the page; the content security policy contains its hash. */
const style = `
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

function landingHtml({ service, version, status, links }: Landing): string {
  const items = [
    links.explorer && item(links.explorer, "Explorer", "Read every route, and call it with your own token."),
    links.openapi_json &&
      html`<li><a href="${links.openapi_json}">OpenAPI document</a> (or <a href="${links.openapi_yaml ?? ""}">as YAML</a>)<p class="soft">The contract: schemas, limits, errors and examples, for generators and people.</p></li>
`,
    html`<li><strong>Health</strong>: <span class="${status}">${statusText[status]}</span><p class="soft">Operators find <code>/livez</code> and <code>/readyz</code> on the operator listener.</p></li>
`,
    links.documentation &&
      item(links.documentation, "Documentation", "How to get a token, make a call and handle errors."),
  ];
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${service}</title>
<link rel="icon" href="${icon}">
<style>${new Markup(style)}</style>
</head>
<body>
<main>
<h1>${service}</h1>
<p>Decides whether workloads may protect, access or rewrap data, and how they enforce it themselves. It sees metadata only: plaintext never reaches it.</p>
<p class="soft">Version ${version} · routes under <code>/v1/sdk/</code> · gRPC, gRPC-Web and Connect on the same address</p>
<ul>
${items.filter((each) => each instanceof Markup)}</ul>
</main>
</body>
</html>
`.text;
}

function item(href: string, title: string, text: string): Markup {
  return html`<li><a href="${href}">${title}</a><p class="soft">${text}</p></li>
`;
}

type LandingOptions = Pick<PublishedOptions, "service" | "version" | "explorer" | "isReady">;

const styleHash = createHash("sha256").update(style).digest("base64");
const landingPolicy =
  `default-src 'none'; style-src 'sha256-${styleHash}'; img-src data:; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The page: HTML, or JSON for clients that prefer it. */
export function landingPage(options: LandingOptions): Page {
  const links = options.explorer ? explorerLinks : {};
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
        headers: { ...headers, "content-security-policy": landingPolicy },
      };
    },
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

/** The quality of the most specific range that covers the type. */
function quality(ranges: readonly Range[], type: string, subtype: string): number {
  const exact = ranges.find((range) => range.type === type && range.subtype === subtype);
  const family = ranges.find((range) => range.type === type && range.subtype === "*");
  const any = ranges.find((range) => range.type === "*" && range.subtype === "*");
  return (exact ?? family ?? any)?.quality ?? 0;
}

/** A shield, as a data URL: browsers request `/favicon.ico` if a page names no icon. */
const icon = new Markup(
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230b57a4' " +
    "d='M8 1 2 3v5c0 3.5 2.5 6 6 7 3.500-1 6-3.500 6-7V3z'/%3E%3C/svg%3E",
);

// `/explorer`: Swagger UI on the OpenAPI document. Everything is served from here; no other host is contacted.

/**
 * Scripts and styles from this origin only, none inline, no `eval`. Swagger UI draws its icons from `data:` URLs. Calls
 * go to the origin that served the page.
 */
const explorerPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const css = "text/css; charset=utf-8";
const javascript = "text/javascript; charset=utf-8";

/** Files by the name under which they are served; links are relative, so any path prefix works. */
const assets = [
  { name: "swagger-ui.css", type: css, file: () => swaggerUi("swagger-ui.css") },
  { name: "swagger-ui-bundle.js", type: javascript, file: () => swaggerUi("swagger-ui-bundle.js") },
  { name: "explorer.css", type: css, file: () => new URL("./assets/explorer.css", import.meta.url) },
  { name: "explorer.js", type: javascript, file: () => new URL("./assets/explorer.js", import.meta.url) },
] as const;

function swaggerUi(name: string): string {
  return join(dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json")), name);
}

/** The explorer and its assets, each read on the first request for it. */
function explorerPages(options: PublishedOptions): readonly Page[] {
  const { explorerToken } = options;
  const page = (api?: string) => (): Content => ({
    type: "text/html; charset=utf-8",
    body: explorerHtml(options, api),
    headers: { "content-security-policy": explorerPolicy },
  });
  return [
    fixed("/explorer", page()),
    ...(options.further ?? []).map(({ name }) => fixed(`/explorer-${name}`, page(name))),
    ...assets.map(({ name, type, file }) =>
      fixed(`/explorer/${name}`, async () => ({ type, body: await readFile(file()) })),
    ),
    ...(explorerToken === undefined
      ? []
      : [{ path: "/explorer/token", content: async () => ({ type: "text/plain", body: await explorerToken() }) }]),
  ];
}

/** How to get credentials for a call, in one line, because the page asks for them first. */
const hints: Readonly<Record<AuthMode, Markup>> = {
  bearer_token: html`A call needs an access token of this deployment's issuer, got with the client credentials grant (<code>npm run dev</code> prints the command). Paste it under <b>Authorize</b>.`,
  bearer_token_or_trusted_headers: html`A call needs an access token of this deployment's issuer, got with the client credentials grant; paste it under <b>Authorize</b>. Behind the trusted ingress, that names you.`,
  trusted_headers: html`No token is needed: the trusted ingress in front of this deployment names you.`,
};

/** Renders the page of the SDK's API, or of the named one. Links are relative to it. */
function explorerHtml({ service, authMode, explorerToken, further = [] }: PublishedOptions, api?: string): string {
  const path = api === undefined ? "openapi" : `openapi-${api}`;
  const others = [["sdk", "explorer"], ...further.map(({ name }) => [name, `explorer-${name}`])].map(
    ([label = "", href = ""]) => {
      const current = new Markup(label === (api ?? "sdk") ? ' aria-current="page"' : "");
      return html`<a href="${href}"${current}>${label}</a> `;
    },
  );
  const apis = further.length === 0 ? "" : html`<nav aria-label="APIs">${others}</nav>`;
  const token = new Markup(explorerToken === undefined ? "" : ' data-token="explorer/token"');
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${service} · explorer</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="explorer/swagger-ui.css">
<link rel="stylesheet" href="explorer/explorer.css">
<script src="explorer/swagger-ui-bundle.js" defer></script>
<script src="explorer/explorer.js" defer></script>
</head>
<body>
<header class="explorer-header"><a href="./">${service}</a>${apis}<nav aria-label="Document"><a href="#rules" id="explorer-rules" role="button" aria-expanded="false">Rules of every call</a> <a href="${path}.json">JSON</a> <a href="${path}.yaml">YAML</a></nav></header>
<p class="explorer-hint">${hints[authMode]}</p>
<p class="explorer-outcome" id="explorer-outcome" role="status"></p>
<main id="explorer" data-document="${path}.json"${token}><p class="explorer-note">Loading the contract…</p></main>
<noscript><p class="explorer-note">The explorer needs JavaScript. The contract itself is <a href="${path}.json">${path}.json</a>.</p></noscript>
</body>
</html>
`.text;
}
