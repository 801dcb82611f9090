/** Token introspection (RFC 7662), as a client of the issuer. */
import { request } from "node:https";
import { Readable } from "node:stream";
import type { IntrospectionRule } from "../../base/issuers.ts";
import { type FetchContext, fetchJsonObject } from "./issuer-documents.ts";

const maximumBytes = 64 * 1024;

export interface IntrospectionContext extends FetchContext {
  /** Content of the file, as UTF-8. */
  readonly readFile: (path: string) => Promise<string>;
}

/**
 * Asks the issuer about the token (§2.1). Reads credential files each time, so that they can be replaced. Does not
 * check the content of the answer.
 * @throws Error that describes the problem without secrets
 */
export async function askIssuer(
  token: string,
  { endpoint, clientId, credentials }: IntrospectionRule,
  context: IntrospectionContext,
): Promise<Record<string, unknown>> {
  const form = new URLSearchParams({ token, token_type_hint: "access_token" });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  if (credentials.kind === "secret") {
    const secret = (await context.readFile(credentials.file)).trim();
    if (secret === "") throw new Error("the client secret's file is empty");
    const authorization = `Basic ${Buffer.from(`${formEncoded(clientId)}:${formEncoded(secret)}`).toString("base64")}`;
    const init = { method: "POST", headers: { ...headers, authorization }, body: form.toString() };
    return fetchJsonObject(new URL(endpoint), "introspection", context, { ...init, maximumBytes });
  }
  // RFC 8705 §2.1: the certificate is the client's credential; the form carries its id.
  form.set("client_id", clientId);
  const [cert, key] = await Promise.all([credentials.certificateFile, credentials.keyFile].map(context.readFile));
  const fetch = fetchByCertificate({ cert, key });
  const init = { method: "POST", headers, body: form.toString() };
  return fetchJsonObject(new URL(endpoint), "introspection", { ...context, fetch }, { ...init, maximumBytes });
}

/** RFC 6749 §2.3.1: id and secret are form-encoded before they are joined. */
function formEncoded(text: string): string {
  return new URLSearchParams({ "": text }).toString().slice(1);
}

/** `fetch` with a client certificate, which the runtime's fetch does not support; follows no redirect. */
function fetchByCertificate(identity: { readonly cert: string | undefined; readonly key: string | undefined }) {
  return (url: URL, init: RequestInit): Promise<Response> =>
    new Promise((resolve, reject) => {
      const { method = "GET", headers, body, signal } = init;
      const options = {
        method,
        headers: { ...(headers as Record<string, string>) },
        ...identity,
        agent: false,
      } as const;
      const outgoing = request(url, { ...options, ...(signal && { signal }) });
      outgoing.once("error", reject).once("response", (incoming) => {
        const status = incoming.statusCode ?? 0;
        const type = incoming.headers["content-type"] ?? "";
        const stream = Readable.toWeb(incoming) as ReadableStream;
        // Bodies of failures are not read.
        if (status !== 200) incoming.destroy();
        resolve(new Response(status === 200 ? stream : null, { status, headers: { "content-type": type } }));
      });
      outgoing.end(body);
    });
}
