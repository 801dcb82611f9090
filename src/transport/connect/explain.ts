/**
 * What is wrong with a message, of JSON or in base64, that the stock plugin could not read. The plugin says so in words that may quote
 * the message; callers are told the members. Nothing here is done for a message that can be read.
 */
import type { DescMessage } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { ConnectError } from "@connectrpc/connect";
import { compressedFlag, type UniversalServerRequest } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { invalidRequests, ServiceError } from "../../base/errors.ts";
import type { AdapterOptions } from "../exchange.ts";
import { jsonFaults } from "../json/faults.ts";
import { parseJson } from "../json/parse.ts";

/** Flag and length before a message of gRPC and gRPC-Web. */
const prefixBytes = 5;

/** A message as it came: its type, its encoding, and the body so far. */
export interface Unread {
  readonly universal: UniversalServerRequest;
  readonly body: readonly Uint8Array[];
}

/**
 * Returns the refusal that names every fault; undefined where the message is neither JSON nor in base64, or nothing is
 * wrong with it.
 */
export async function explainUnread(
  unread: Unread,
  desc: DescMessage,
  maxBytes: number,
  { rules }: Pick<AdapterOptions, "rules">,
): Promise<ServiceError | undefined> {
  if (!isQueryDecodable(unread.universal))
    return invalidRequests([{ field: "", rule: "base64", message: "message is not base64" }]);
  const message = await jsonOf(unread, maxBytes);
  if (message === undefined) return undefined;
  try {
    const faults = jsonFaults(desc, parseJson(message), "canonical", (read) => rules(desc, read));
    return faults.length === 0 ? undefined : invalidRequests(faults);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Whether a message that a GET says to be in base64 is so, as the plugin reads it. */
function isQueryDecodable({ method, url }: UniversalServerRequest): boolean {
  const query = new URL(url).searchParams;
  if (method !== "GET" || query.get("base64") !== "1") return true;
  try {
    base64Decode(query.get("message") ?? "");
    return true;
  } catch {
    return false;
  }
}

async function jsonOf({ universal, body }: Unread, maxBytes: number): Promise<Uint8Array | undefined> {
  const { header, method, url } = universal;
  const type = (header.get("content-type") ?? "").toLowerCase();
  if (method === "GET") return jsonOfQuery(new URL(url).searchParams);
  const bytes = Buffer.concat(body);
  if (/^application\/json\s*(;|$)/.test(type)) return decompress(bytes, header.get("content-encoding"), maxBytes);
  if (!/^application\/grpc(-web)?\+json\s*(;|$)/.test(type) || bytes.byteLength < prefixBytes) return undefined;
  const message = bytes.subarray(prefixBytes, prefixBytes + bytes.readUInt32BE(1));
  const isCompressed = ((bytes[0] as number) & compressedFlag) !== 0;
  return decompress(message, isCompressed ? header.get("grpc-encoding") : null, maxBytes);
}

function jsonOfQuery(query: URLSearchParams): Uint8Array | undefined {
  if (query.get("encoding") !== "json" || query.get("compression") !== null) return undefined;
  return Buffer.from(query.get("message") ?? "", query.get("base64") === "1" ? "base64url" : "utf8");
}

async function decompress(
  bytes: Uint8Array,
  encoding: string | null,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  if (encoding === null || encoding === "identity") return bytes;
  const compression = [compressionGzip, compressionBrotli].find(({ name }) => name === encoding);
  try {
    return await compression?.decompress(bytes, maxBytes);
  } catch (error) {
    // The plugin has refused it for the same reason.
    if (error instanceof ConnectError) return undefined;
    throw error;
  }
}
