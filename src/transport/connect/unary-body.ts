/**
 * Reads request bodies for the Connect plugin: complete, in time, decompressed, and within the limits of a request. The
 * plugin itself reads and parses bodies of any cost.
 */
import type { Duplex } from "node:stream";
import { createBrotliDecompress, createGunzip } from "node:zlib";
import type { DescMessage } from "@bufbuild/protobuf";
import { compressedFlag, encodeEnvelope, type UniversalServerRequest } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import type { FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";
import {
  admitBody,
  type BodyLimits,
  bodyTooLarge,
  continueIfExpected,
  declaredBytes,
  prefixBytes,
  readBody,
} from "../../http/body.ts";
import type { Protocol } from "../calls/call.ts";
import { invalidMessage, toServiceError } from "../calls/errors.ts";
import { requireFewRecords } from "../codec/binary-records.ts";
import { readableText } from "../codec/parse.ts";

/** Encodings of request messages. Decompression is done in pieces: a few bytes may expand a thousandfold. */
const decompressors: ReadonlyMap<string, () => Duplex> = new Map<string, () => Duplex>([
  [compressionGzip.name, () => createGunzip({ chunkSize: pieceBytes })],
  [compressionBrotli.name, () => createBrotliDecompress({ chunkSize: pieceBytes })],
]);
const pieceBytes = 64 * 1024;

export interface BodyForm {
  readonly isJson: boolean;
  readonly isEnveloped: boolean;
  /** Undefined if there is no encoding, or one that the plugin refuses. */
  readonly decompress: (() => Duplex) | undefined;
}

/**
 * Returns the form of a request's body, and removes the headers about its compression and length: the plugin gets a
 * decompressed body. Headers of an unsupported encoding stay, so that the plugin refuses it.
 */
export function takeForm({ header, method }: UniversalServerRequest, protocol: Protocol | undefined): BodyForm {
  const isEnveloped = protocol !== "connect";
  const type = (header.get("content-type") ?? "").toLowerCase();
  const encodingHeader = isEnveloped ? "grpc-encoding" : "content-encoding";
  const decompress = decompressors.get(header.get(encodingHeader) ?? "");
  if (method !== "GET" && decompress !== undefined) header.delete(encodingHeader);
  header.delete("content-length");
  const isJson = isEnveloped
    ? /^application\/grpc(-web)?\+json\s*(;|$)/.test(type)
    : /^application\/json\s*(;|$)/.test(type);
  return { isJson, isEnveloped, decompress };
}

export interface UnaryBodyOptions {
  readonly request: FastifyRequest;
  readonly form: BodyForm;
  readonly desc: DescMessage;
  /** `maxBytes` limits the message both as sent and decompressed. Called when the body is read. */
  readonly limits: () => BodyLimits;
  readonly signal: AbortSignal;
  /** Takes the items out of a bulk message; absent for other messages. */
  readonly takeItems?: ((message: Uint8Array, isJson: boolean) => Uint8Array) | undefined;
  /** Called with the body that the plugin gets. */
  readonly onRead: (body: Uint8Array) => void;
}

/** Yields the body. Notes a refusal on the call, because Connect reports any error of a body as internal. */
export async function* unaryBody(options: UnaryBodyOptions): AsyncGenerator<Uint8Array> {
  const { request, form, desc, signal, onRead } = options;
  const { raw, response, call } = request;
  try {
    const limits = options.limits();
    const { maxBytes } = limits;
    const bodyLimits = { ...limits, maxBytes: maxBytes + (form.isEnveloped ? prefixBytes : 0) };
    const announced = { bytes: declaredBytes(raw), isFramed: form.isEnveloped };
    admitBody(announced, bodyLimits);
    continueIfExpected(raw, response);
    const sent = await readBody(raw, announced, bodyLimits, signal, call.ticket);
    const plainBody = form.isEnveloped
      ? await plainFrames(sent, form, limits)
      : await plain(sent, form, limits, sent.byteLength);
    const body = options.takeItems === undefined ? plainBody : withoutItems(plainBody, form, options.takeItems);
    onRead(body);
    for (const message of form.isEnveloped ? messagesIn(body) : [body]) {
      if (form.isJson) readableText(desc, message);
      else requireFewRecords(desc, message);
    }
    yield body;
  } catch (thrown) {
    call.refusal = toServiceError(thrown);
    throw thrown;
  }
}

/** @param heldBytes bytes that the lease already holds for the body */
async function plain(
  bytes: Buffer,
  { decompress }: BodyForm,
  { maxBytes, lease }: BodyLimits,
  heldBytes: number,
): Promise<Buffer> {
  if (decompress === undefined || bytes.byteLength === 0) return bytes;
  const stream = decompress();
  const parts: Buffer[] = [];
  let sizeBytes = 0;
  try {
    stream.end(bytes);
    for await (const part of stream as AsyncIterable<Buffer>) {
      sizeBytes += part.byteLength;
      if (sizeBytes > maxBytes) throw bodyTooLarge();
      lease.holds(heldBytes + sizeBytes);
      parts.push(part);
    }
  } catch (error) {
    throw error instanceof ServiceError ? error : invalidMessage("decode", "message could not be decoded");
  } finally {
    stream.destroy();
  }
  return Buffer.concat(parts);
}

/** Two messages are enough to refuse a call for having several. */
const maxFrames = 2;

/** Returns the frames decompressed. Invalid frames stay, so that the plugin refuses them. */
async function plainFrames(body: Buffer, form: BodyForm, limits: BodyLimits): Promise<Buffer> {
  if (form.decompress === undefined) return body;
  const parts: Uint8Array[] = [];
  let at = 0;
  while (parts.length < maxFrames && at < body.length) {
    const end = frameEnd(body, at);
    if (end === undefined) break;
    const flags = body[at] as number;
    const message = body.subarray(at + prefixBytes, end);
    const isCompressed = (flags & compressedFlag) !== 0;
    parts.push(
      isCompressed
        ? encodeEnvelope(flags & ~compressedFlag, await plain(message, form, limits, body.byteLength))
        : body.subarray(at, end),
    );
    at = end;
  }
  return Buffer.concat([...parts, body.subarray(at)]);
}

/** A body without exactly one message stays, so that the plugin refuses it. */
function withoutItems(
  body: Buffer,
  { isJson, isEnveloped }: BodyForm,
  takeItems: NonNullable<UnaryBodyOptions["takeItems"]>,
): Uint8Array {
  if (!isEnveloped) return takeItems(body, isJson);
  const isOne = ((body[0] ?? 0) & compressedFlag) === 0 && frameEnd(body, 0) === body.length;
  return isOne ? encodeEnvelope(body[0] as number, takeItems(body.subarray(prefixBytes), isJson)) : body;
}

function* messagesIn(body: Uint8Array): Generator<Uint8Array> {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0, end = frameEnd(bytes, at); end !== undefined; at = end, end = frameEnd(bytes, at)) {
    // Compressed with an unknown encoding: the plugin refuses it unread.
    if (((bytes[at] as number) & compressedFlag) === 0) yield bytes.subarray(at + prefixBytes, end);
  }
}

/** End of the frame that begins here; undefined if it is incomplete. */
function frameEnd(body: Buffer, at: number): number | undefined {
  if (body.length < at + prefixBytes) return undefined;
  const end = at + prefixBytes + body.readUInt32BE(at + 1);
  return end <= body.length ? end : undefined;
}
