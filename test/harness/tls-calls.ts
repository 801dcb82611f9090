/** Who am I, asked over TLS with a client certificate or without: by REST and by gRPC. */
import { request } from "node:https";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { refusalOf } from "./grpc.ts";

/** How a caller connects. */
export interface TlsCaller {
  /** PEM of the authority whose servers it trusts. */
  readonly ca: string;
  /** Its own certificate and key in PEM, if it shows one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** The caller as the service names it, or why it did not say. */
export type Answer = { readonly tenant: string; readonly source: string } | { readonly reason: string };
type Headers = Readonly<Record<string, string>>;

export async function whoamiByRest(url: string, caller: TlsCaller, headers: Headers): Promise<Answer> {
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const outgoing = request(`${url}/v1/sdk/whoami`, { headers, agent: false, ...defined(caller) });
    outgoing.once("error", reject).once("response", (response) => {
      response
        .toArray()
        .then(
          (chunks) => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
          reject,
        );
    });
    outgoing.end();
  });
  if (!text.startsWith("{")) return { reason: `status ${status}` };
  const body = JSON.parse(text);
  return body.caller === undefined
    ? { reason: body.error.reason }
    : { tenant: body.caller.tenant_id, source: body.caller.auth_source };
}

export async function whoamiByGrpc(url: string, caller: TlsCaller, headers: Headers): Promise<Answer> {
  const sessionManager = new Http2SessionManager(url, undefined, defined(caller));
  const transport = createGrpcTransport({ baseUrl: url, sessionManager });
  try {
    const method = DiscoveryService.method.whoAmI;
    const { message } = await transport.unary(method, undefined, undefined, headers, create(method.input));
    return { tenant: message.caller?.tenantId ?? "", source: message.caller?.authSource ?? "" };
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const { reason } = refusalOf(error);
    return { reason: reason === "none" ? `${Code[error.code]}: ${error.rawMessage}` : reason };
  } finally {
    sessionManager.abort();
  }
}

function defined({ ca, cert, key }: TlsCaller): Record<string, string> {
  return { ca, ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) };
}
