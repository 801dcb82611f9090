/** `/explorer`: Swagger UI on the OpenAPI document. Everything is served from here; no other host is contacted. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { AuthMode } from "../base/vocabulary.ts";
import { type Content, fixed, type Page } from "../transport/rest/page.ts";
import { escapeHtml, icon } from "./landing.ts";

/**
 * Scripts and styles from this origin only, none inline, no `eval`. Swagger UI draws its icons from `data:` URLs. Calls
 * go to the origin that served the page.
 */
const contentSecurityPolicy =
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

/** The deployment's properties that the page shows. */
export interface ExplorerOptions {
  readonly service: string;
  readonly authMode: AuthMode;
  /** Names of the APIs beside the SDK's, each with its own page. Default: none. */
  readonly further?: readonly { readonly name: string }[];
}

/**
 * The explorer and its assets, each read on the first request for it.
 *
 * @param read returns the bytes of a file
 */
export function explorerPages(
  options: ExplorerOptions,
  read: (path: string | URL) => Promise<Buffer> = readFile,
): readonly Page[] {
  const page = (api?: string) => (): Content => ({
    type: "text/html; charset=utf-8",
    body: explorerHtml(options, api),
    headers: { "content-security-policy": contentSecurityPolicy },
  });
  return [
    fixed("/explorer", page()),
    ...(options.further ?? []).map(({ name }) => fixed(`/explorer-${name}`, page(name))),
    ...assets.map(({ name, type, file }) =>
      fixed(`/explorer/${name}`, async () => ({ type, body: await read(file()) })),
    ),
  ];
}

/** How to get credentials for a call, in one line, because the page asks for them first. */
const hints: Readonly<Record<AuthMode, string>> = {
  bearer_token:
    "A call needs an access token of this deployment's issuer, got with the client credentials grant " +
    "(<code>npm run dev</code> prints the command). Paste it under <b>Authorize</b>.",
  bearer_token_or_trusted_headers:
    "A call needs an access token of this deployment's issuer, got with the client credentials grant; paste it under " +
    "<b>Authorize</b>. Behind the trusted ingress, that names you.",
  trusted_headers: "No token is needed: the trusted ingress in front of this deployment names you.",
};

/** Renders the page of the SDK's API, or of the named one. Links are relative to it. */
function explorerHtml({ service, authMode, further = [] }: ExplorerOptions, api?: string): string {
  const name = escapeHtml(service);
  const path = api === undefined ? "openapi" : `openapi-${api}`;
  const others = [["sdk", "explorer"], ...further.map((one) => [one.name, `explorer-${one.name}`])]
    .map(([label, href]) => `<a href="${href}"${label === (api ?? "sdk") ? ' aria-current="page"' : ""}>${label}</a> `)
    .join("");
  const apis = further.length === 0 ? "" : `<nav aria-label="APIs">${others}</nav>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${name} · explorer</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="explorer/swagger-ui.css">
<link rel="stylesheet" href="explorer/explorer.css">
<script src="explorer/swagger-ui-bundle.js" defer></script>
<script src="explorer/explorer.js" defer></script>
</head>
<body>
<header class="explorer-header"><a href="./">${name}</a>${apis}<nav aria-label="Document"><a href="#rules" id="explorer-rules" role="button" aria-expanded="false">Rules of every call</a> <a href="${path}.json">JSON</a> <a href="${path}.yaml">YAML</a></nav></header>
<p class="explorer-hint">${hints[authMode]}</p>
<main id="explorer" data-document="${path}.json"><p class="explorer-note">Loading the contract…</p></main>
<noscript><p class="explorer-note">The explorer needs JavaScript. The contract itself is <a href="${path}.json">${path}.json</a>.</p></noscript>
</body>
</html>
`;
}
