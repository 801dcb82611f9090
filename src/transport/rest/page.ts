/** Pages beside the routes of the contract: document, explorer and landing page. No credentials. */
import { createHash } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { rememberedBy } from "../../base/remembered.ts";
import type { Call } from "../calls/call.ts";
import { addRoute } from "../calls/exchange.ts";
import { sendRefusal, sendWritten, toServiceError, type Written } from "../calls/refusals.ts";

export interface Content {
  readonly type: string;
  readonly body: string | Buffer;
  /** Further headers. Default of `cache-control`: `no-cache`, so that clients revalidate. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Page {
  readonly path: string;
  /** Returns the content for a request. Called for every request; `fixed` calls its function once. */
  content(request: { readonly accept: string | undefined }): Content | Promise<Content>;
}

/** Value of `Allow` on every page. */
export const pageMethods = "GET, HEAD";

/** Security headers of every page. */
const guards = {
  "cache-control": "no-cache",
  "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** A page whose content never changes. It is created on the first request. */
export function fixed(path: string, make: () => Content | Promise<Content>): Page {
  let made: Promise<Content> | undefined;
  return {
    path,
    content() {
      made ??= Promise.resolve(make()).catch((error: unknown) => {
        made = undefined;
        throw error;
      });
      return made;
    },
  };
}

export function registerPages(app: FastifyInstance, service: string, pages: readonly Page[]): void {
  for (const page of pages)
    addRoute(app, ["GET", "HEAD"], page.path, (request, reply) => answer(page, service, request, reply));
}

async function answer(page: Page, service: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  try {
    const [accept] = request.call.inbound.headerValues("accept");
    sendWritten(written(request.call, await page.content({ accept })), request, reply);
  } catch (thrown) {
    request.call.protocol = "rest";
    sendRefusal(service, toServiceError(thrown), request, reply);
  }
}

function written({ inbound }: Call, { type, body, headers }: Content): Written {
  const etag = typeof body === "string" ? entityTag(body) : fixedTag(body);
  const common = { ...guards, ...headers, etag };
  // RFC 9110 §13.1.2: the comparison is weak, and the header may be a list or `*`.
  const known = inbound.headerValues("if-none-match").join(",");
  if (known.trim() === "*" || known.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag))
    return { status: 304, headers: common, body: new Uint8Array() };
  const own = { "content-type": type, "content-length": String(Buffer.byteLength(body)) };
  const sent = inbound.method === "HEAD" ? "" : body;
  return { status: 200, headers: { ...common, ...own }, body: typeof sent === "string" ? Buffer.from(sent) : sent };
}

function entityTag(body: string | Buffer): string {
  return `"${createHash("sha256").update(body).digest("base64url")}"`;
}

/** Fixed bodies are large: their tags are computed once. */
const fixedTag = rememberedBy((body: Buffer) => entityTag(body));
