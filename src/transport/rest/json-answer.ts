/** Writes JSON answers. They go to Node's response directly: fastify would add a charset that JSON does not have. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { refusalHeaders, type ServiceError, toEnvelope } from "../../base/errors.ts";

/** Sends a JSON text with the headers that hooks set on the reply, the given ones, and its type and length. */
export function sendJson(reply: FastifyReply, status: number, headers: Record<string, string>, json: ByteText): void {
  const { raw } = reply;
  // The caller may have left.
  if (raw.destroyed || raw.headersSent) return;
  raw.writeHead(status, {
    ...(reply.getHeaders() as Record<string, string>),
    ...headers,
    "content-type": "application/json",
    "content-length": json.length,
  });
  // Node sends text together with the headers; bytes would need another write.
  raw.end(json, "latin1");
}

/** Sends a refusal as the JSON envelope, under its reason's status or another, and notes it on the call. */
export function refuse(
  service: string,
  refusal: ServiceError,
  { call }: FastifyRequest,
  reply: FastifyReply,
  headers: Record<string, string> = {},
  status: number = refusal.httpStatus,
): void {
  call.refusal = refusal;
  if (!reply.sent) reply.hijack();
  const envelope = toEnvelope(service, call.requestId, refusal);
  sendJson(
    reply,
    status,
    { ...refusalHeaders(refusal), ...call.announced, ...headers },
    toByteText(JSON.stringify(envelope)),
  );
}

declare const brand: unique symbol;

/**
 * UTF-8 bytes as text with one character (U+0000 to U+00FF) per byte: it is written as `latin1`, and its length is its
 * size in bytes. Node writes it together with the headers, and several times faster than text with a character beyond
 * U+00FF, such as the signature lines of a proof.
 */
export type ByteText = string & { readonly [brand]: "ByteText" };

/** A lone surrogate becomes U+FFFD. */
export function toByteText(text: string): ByteText {
  return (isAscii(text) ? text : Buffer.from(text).toString("latin1")) as ByteText;
}

/** Whether every character is ASCII, so that the text is its own `ByteText`. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}
