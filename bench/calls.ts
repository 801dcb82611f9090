/** The measured calls, as the load generators send them and as a client reads them. */
import { type DescMethodUnary, toBinary, toJsonString } from "@bufbuild/protobuf";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type SampleCall, sampleCalls } from "../dev/requests.ts";
import { createRestRegistry } from "../dev/rest-json.ts";
import { SessionService } from "../gen/platform/sdk/v1/session_pb.ts";
import { publicServices } from "../src/transport/calls/methods.ts";
import { readJson } from "../src/transport/codec/json-reader.ts";
import { encodeFrame } from "../src/transport/grpc/frame.ts";

const measured = {
  whoami: "/v1/sdk/whoami",
  "protection-plan": "/v1/sdk/protection-plan",
  evidence: "/v1/sdk/evidence",
};
const services = [...publicServices, SessionService];
export const registry = createRestRegistry(services.flatMap(({ file }) => [file, ...file.dependencies]));

/** One call in each protocol's form. */
export interface BenchCall {
  readonly name: string;
  readonly restPath: string;
  /** Body on the JSON route; absent on GET. */
  readonly json?: Buffer;
  readonly rpcPath: string;
  readonly connectJson: Buffer;
  /** One length-prefixed message. */
  readonly frame: Buffer;
}

/** The calls to measure. */
export function benchCalls(): readonly BenchCall[] {
  return Object.entries(measured).map(([name, route]) => {
    const sample = sampleCalls().find((candidate) => candidate.route === route);
    if (sample === undefined) throw new Error(`there is no sample call for ${route}`);
    return toBenchCall(name, sample);
  });
}

/** A measured call that has a body. */
export function benchCall(name: "protection-plan" | "evidence"): BenchCall & { readonly json: Buffer } {
  const call = benchCalls().find((candidate) => candidate.name === name);
  if (call?.json === undefined) throw new Error(`there is no call ${name}`);
  return { ...call, json: call.json };
}

function toBenchCall(name: string, { route, rpc, body }: SampleCall): BenchCall {
  const json = Buffer.from(JSON.stringify(body ?? {}));
  const { input } = methodOf(rpc);
  const message = readJson(input, json, "rest");
  return {
    name,
    restPath: route,
    ...(body !== undefined && { json }),
    rpcPath: `/${rpc}`,
    connectJson: Buffer.from(toJsonString(input, message)),
    frame: encodeFrame(toBinary(input, message)),
  };
}

/** The method of this name, among all services that a client may call. */
export function methodOf(rpc: string): DescMethodUnary {
  for (const service of services)
    for (const method of service.methods)
      if (`${service.typeName}/${method.name}` === rpc) return method as DescMethodUnary;
  throw new Error(`${rpc} is not a public method`);
}

/** The gateway's answers, so that the bare server can send the same: JSON text and gRPC frame. */
export async function answersOf(
  url: string,
  token: string,
  { restPath, json, rpcPath }: BenchCall,
): Promise<{ readonly json: string; readonly frame: string }> {
  const authorization = `Bearer ${token}`;
  const response = await fetch(url + restPath, {
    headers: { authorization, ...(json && { "content-type": "application/json" }) },
    ...(json && { method: "POST", body: json }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${restPath}: ${response.status} ${text}`);
  const method = methodOf(rpcPath.slice(1));
  const transport = createGrpcTransport({ baseUrl: url });
  const request = readJson(method.input, json ?? Buffer.from("{}"), "rest");
  const { message } = await transport.unary(method, undefined, 5_000, { authorization }, request);
  return { json: text, frame: encodeFrame(toBinary(method.output, message)).toString("base64") };
}
