/** `/console`: the static files of the read-only console (`console/`). They hold no data, so they need no credentials. */
import { readFile } from "node:fs/promises";
import type { FastifyInstance, FastifyReply } from "fastify";
import { ServiceError } from "../base/errors.ts";
import { reportStyleSource } from "../ledger/report/html.ts";

/**
 * Scripts and styles of this listener only, none inline but the style of reports; nothing may turn text into script.
 * A report is shown in a frame without scripts, which inherits this policy.
 */
const contentSecurityPolicy =
  `default-src 'none'; script-src 'self'; style-src 'self' ${reportStyleSource}; img-src 'self'; ` +
  "connect-src 'self'; frame-src blob:; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const types: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/** File names from Vite, which contain a hash of the content. They have no slash, which prevents path traversal. */
const assetName = /^[A-Za-z0-9_-]+\.(css|js|svg)$/;

/**
 * Adds `GET /console` with everything below it. Every page is the same document, which reads its own address.
 *
 * @param page the built document; its assets are in the folder `assets` beside it
 */
export function addConsoleRoutes(server: FastifyInstance, page: URL): void {
  const document = async (reply: FastifyReply) => {
    const html = await built(page);
    return secured(reply).header("content-type", "text/html; charset=utf-8").send(html);
  };
  server.get("/console", (_request, reply) => document(reply));
  server.get("/console/*", (_request, reply) => document(reply));
  server.get<{ Params: { name: string } }>("/console/assets/:name", async (request, reply) => {
    const { name } = request.params;
    const [, extension = ""] = assetName.exec(name) ?? [];
    const type = types[extension];
    if (type === undefined) throw new ServiceError("no_route", "the console has no such file");
    const bytes = await built(new URL(`assets/${name}`, page));
    return secured(reply)
      .header("cache-control", "public, max-age=31536000, immutable")
      .header("content-type", type)
      .send(bytes);
  });
}

function secured(reply: FastifyReply): FastifyReply {
  return reply
    .header("content-security-policy", contentSecurityPolicy)
    .header("x-content-type-options", "nosniff")
    .header("referrer-policy", "no-referrer")
    .header("cross-origin-opener-policy", "same-origin")
    .header("cross-origin-resource-policy", "same-origin");
}

async function built(file: URL): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new ServiceError("no_route", "this file of the console is not built: npm run build makes it");
  }
}
