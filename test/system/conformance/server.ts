/**
 * The server that the public conformance suite of Connect asks: this project's own server, with every adapter, the gate
 * and the interceptors of the product, and the suite's unary methods in place of the product's. Their errors leave with
 * the codes and details that the suite wants, in place of the product's closed list: how an error is written in each
 * protocol is what the suite is asked about. The suite says on
 * standard input what it wants, and gets its address on standard output, each as a message with its length.
 *
 * Usage: node server.ts IMAGE, the descriptors of the suite's definitions
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { createFileRegistry, type DescMethodUnary, fromBinary, toBinary } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type { ServedMethod } from "../../../src/transport/calls/methods.ts";

/** Parts of the product's source, by file, that the suite needs otherwise. They are replaced before they are loaded. */
const replacements: Readonly<Record<string, readonly (readonly [part: string, own: string])[]>> = {
  // What carries the suite's own error leaves as that.
  "calls/refusals.ts": [
    [
      "export function toConnectError(",
      `export function toConnectError(service: string, requestId: RequestId, error: ServiceError): ConnectError {
        return "wanted" in error ? (error.wanted as ConnectError) : ownConnectError(service, requestId, error);
      }
      function ownConnectError(`,
    ],
  ],
  // The suite has no JSON routes, and messages that no answer of the product has.
  "rest/adapter.ts": [["export function registerRest(", "export function registerRest() {}\nexport function ownRest("]],
  // Its messages contain `Any`, which is read and written by a registry.
  "connect/unary.ts": [
    ["import { type Message, toJsonString }", "import { fromJson, type Message, toJsonString }"],
    [
      "import { requestReader }",
      'import { decodeText, notJson } from "../codec/json-reader.ts";\nimport { requestReader }',
    ],
    [
      'read(bytes, isJson ? "canonical" : "binary", call)',
      'isJson ? readSuiteJson(input, bytes) : read(bytes, "binary", call)',
    ],
    ["toJsonString(output, message)", "toJsonString(output, message, { registry: globalThis.suite })"],
    [
      "export function unaryCarrier(",
      `function readSuiteJson(desc, bytes) {
        const text = decodeText(bytes);
        try {
          return fromJson(desc, JSON.parse(text), { registry: globalThis.suite });
        } catch (cause) {
          throw notJson(cause);
        }
      }
      export function unaryCarrier(`,
    ],
  ],
};
const transport = new URL("../../../src/transport/", import.meta.url).href;
const replaced = new Set<string>();
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const name = url.startsWith(transport) ? url.slice(transport.length) : "";
    const parts = replacements[name];
    if (parts === undefined) return loaded;
    replaced.add(name);
    let source = String(loaded.source);
    for (const [part, own] of parts) {
      if (!source.includes(part)) throw new Error(`${name} does not have ${part}`);
      source = source.replace(part, () => own);
    }
    return { ...loaded, source };
  },
});
const [{ systemClock }, { createChain }, { createBodyBudget }, { createServer }, { conformanceMethods }] =
  await Promise.all([
    import("../../../src/base/clock.ts"),
    import("../../../src/transport/gate/chain.ts"),
    import("../../../src/http/body.ts"),
    import("../../../src/transport/server.ts"),
    import("./methods.ts"),
  ]);
if (replaced.size < Object.keys(replacements).length) throw new Error("a part of the product is not where it was");

const prefixBytes = 4;
const defaultMessageBytes = 4 * 1024 * 1024;
const packageName = "connectrpc.conformance.v1";

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(process.argv[2] ?? "")));
Object.assign(globalThis, { suite: registry });
const message = (name: string) => {
  const desc = registry.getMessage(`${packageName}.${name}`);
  if (desc === undefined) throw new Error(`the suite has no ${name}`);
  return desc;
};

async function readRequest(): Promise<Uint8Array> {
  let received: Buffer = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    received = Buffer.concat([received, chunk as Buffer]);
    if (received.length >= prefixBytes && received.length >= prefixBytes + received.readUInt32BE(0)) break;
  }
  return received.subarray(prefixBytes);
}

const wanted = reflect(message("ServerCompatRequest"), fromBinary(message("ServerCompatRequest"), await readRequest()));
const { useTls, messageReceiveLimit, serverCreds } = wanted.message as unknown as {
  readonly useTls: boolean;
  readonly messageReceiveLimit: number;
  readonly serverCreds?: { readonly cert: Uint8Array; readonly key: Uint8Array };
};

const service = registry.getService(`${packageName}.ConformanceService`);
if (service === undefined) throw new Error("the suite has no service");
const implementations = conformanceMethods(registry);
const methods = service.methods
  .filter(({ methodKind }) => methodKind === "unary")
  .map((method): ServedMethod => {
    const impl = implementations.get(method.name);
    if (impl === undefined) throw new Error(`${method.name} is new to this server`);
    return {
      rpc: `${service.name}/${method.name}`,
      spec: { kind: "unary", method: method as DescMethodUnary, impl },
      rpcPath: `/${service.typeName}/${method.name}`,
      verb: method.name === "IdempotentUnary" ? "GET" : "POST",
      restPath: `/v1/conformance/${method.name}`,
    };
  });

const addressOf = ({ remoteAddress }: { readonly remoteAddress: string }) => remoteAddress;
const chain = createChain({
  headerPrefix: "x-conformance-",
  addressOf,
  verifier: { verify: () => Promise.reject(new Error("no method here needs credentials")) } as never,
  requiredScopes: () => [],
  withoutCredentials: new Map(methods.map(({ rpc }) => [rpc, async () => {}])),
});
const server = await createServer({
  service: "conformance",
  methods,
  ...chain,
  // The messages of the suite are no requests of ours.
  checks: () => {},
  watchAdmission: () => {},
  addressOf,
  bodies: createBodyBudget({ maxBytes: 2 ** 30, addressOf }),
  limits: {
    maxBodyBytes: () => (messageReceiveLimit > 0 ? messageReceiveLimit : defaultMessageBytes),
    maxItemBytes: () => defaultMessageBytes,
    bodyTimeoutMs: 30_000,
    maxDeadlineMs: 60_000,
  },
  listener: {
    ...(useTls &&
      serverCreds !== undefined && {
        tls: { cert: Buffer.from(serverCreds.cert).toString(), key: Buffer.from(serverCreds.key).toString() },
      }),
    headersTimeoutMs: 30_000,
    requestTimeoutMs: 60_000,
    idleTimeoutMs: 60_000,
    answerTimeoutMs: 30_000,
    maxConnections: 1_024,
    maxHeaderBytes: 64 * 1024,
    onDefect: (error) => void process.stderr.write(`${error}\n`),
  },
  clock: systemClock,
  random: (bytes) => crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>),
  onAnswered: () => {},
});
const { address: host, port } = await server.listen("127.0.0.1", 0);
const response = reflect(message("ServerCompatResponse"));
const set = (name: string, value: string | number | Uint8Array) => {
  const field = response.desc.fields.find((candidate) => candidate.name === name);
  if (field === undefined) throw new Error(`the suite's answer has no ${name}`);
  response.set(field, value);
};
set("host", host);
set("port", port);
if (useTls && serverCreds !== undefined) set("pem_cert", serverCreds.cert);
const bytes = toBinary(response.desc, response.message);
const prefix = Buffer.alloc(prefixBytes);
prefix.writeUInt32BE(bytes.byteLength);
process.stdout.write(Buffer.concat([prefix, bytes]));
process.once("SIGTERM", () => void server.close(1_000).then(() => process.exit(0)));
