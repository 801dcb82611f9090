/**
 * Explains why the Connect plugin could not read a JSON or base64 message. The plugin's text may quote the message; the
 * refusal names its members instead. Runs for unreadable messages only.
 */
import type { DescMessage } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { invalidRequests, ServiceError } from "../../base/errors.ts";
import { prefixBytes } from "../../http/body.ts";
import { jsonFaults } from "../codec/faults.ts";
import { parseJson } from "../codec/parse.ts";
import type { Rules } from "../codec/validate.ts";
import type { BodyForm } from "./unary-body.ts";

export interface Unread {
  readonly universal: UniversalServerRequest;
  readonly form: BodyForm;
  /** Undefined if the body was not complete. */
  readonly body: Uint8Array | undefined;
}

/** Returns the refusal that names every fault; undefined if the message is neither JSON nor base64, or has no fault. */
export function explainUnread(unread: Unread, desc: DescMessage, rules: Rules): ServiceError | undefined {
  if (!isQueryDecodable(unread.universal))
    return invalidRequests([{ field: "", rule: "base64", message: "message is not base64" }]);
  const message = jsonOf(unread);
  if (message === undefined) return undefined;
  try {
    const faults = jsonFaults(desc, parseJson(desc, message), "canonical", (read) => rules(desc, read));
    return faults.length === 0 ? undefined : invalidRequests(faults);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Whether the base64 message of a GET request can be decoded as the plugin does it. */
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

function jsonOf({ universal, form, body }: Unread): Uint8Array | undefined {
  if (universal.method === "GET") return jsonOfQuery(new URL(universal.url).searchParams);
  if (!form.isJson || body === undefined || !form.isEnveloped) return form.isJson ? body : undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (bytes.byteLength < prefixBytes) return undefined;
  return bytes.subarray(prefixBytes, prefixBytes + bytes.readUInt32BE(1));
}

function jsonOfQuery(query: URLSearchParams): Uint8Array | undefined {
  if (query.get("encoding") !== "json" || query.get("compression") !== null) return undefined;
  return Buffer.from(query.get("message") ?? "", query.get("base64") === "1" ? "base64url" : "utf8");
}
