/** `/explorer`: Swagger UI, driven by the document. All of it comes from here; nothing is asked of other hosts. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type Content, fixed, type Page } from "../../transport/http/page.ts";
import { explorerHtml } from "./html.ts";

/**
 * Scripts and styles from this origin only, none inline, no `eval`. Swagger UI draws its icons from `data:` URLs.
 * Calls go to the origin that served the page.
 */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const ours = join(import.meta.dirname, "assets");

/** Files by the name under which they are served; links are relative, so that any path prefix works. */
const assets = [
  { name: "swagger-ui.css", type: "text/css; charset=utf-8", folder: swaggerUi },
  { name: "swagger-ui-bundle.js", type: "text/javascript; charset=utf-8", folder: swaggerUi },
  { name: "explorer.css", type: "text/css; charset=utf-8", folder: () => ours },
  { name: "explorer.js", type: "text/javascript; charset=utf-8", folder: () => ours },
] as const;

function swaggerUi(): string {
  return dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
}

/**
 * The explorer and its assets, each read on the first request for it.
 *
 * @param read gives the bytes of a file
 */
export function explorerPages(service: string, read: (path: string) => Promise<Buffer> = readFile): readonly Page[] {
  const html = Buffer.from(explorerHtml(service));
  const page = (): Content => ({
    type: "text/html; charset=utf-8",
    body: html,
    headers: { "content-security-policy": contentSecurityPolicy },
  });
  return [
    fixed("/explorer", page),
    ...assets.map(({ name, type, folder }) =>
      fixed(`/explorer/${name}`, async () => ({ type, body: await read(join(folder(), name)) })),
    ),
  ];
}
