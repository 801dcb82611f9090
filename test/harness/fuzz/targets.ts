/** Targets of the fuzzer: every route, with the bodies and headers that it takes, and some that no route takes. */
import { create, type DescMessage, toBinary, toJson } from "@bufbuild/protobuf";
import { sampleCalls } from "../../../dev/requests.ts";
import {
  GetDecisionMultiResourceRequestSchema,
  GetDecisionRequestSchema,
} from "../../../gen/opentdf/authorization_pb.ts";
import { bulkRoutes, bulkStreams } from "../../../src/domain/routes.ts";
import { frame } from "../grpc.ts";
import { methodOn, requestFromRest } from "../methods.ts";
import type { Random } from "./random.ts";

export interface Target {
  readonly method: string;
  readonly path: string;
  readonly types: readonly string[];
  readonly bodies: readonly Buffer[];
  /** Share of requests with valid credentials, if not `usuallyAuthorized`. */
  readonly authorized?: number;
}

/** Share of requests with valid credentials. Few, because each of them writes a record. */
export const usuallyAuthorized = 0.05;

const json = "application/json";
const grpcTypes = ["application/grpc", "application/grpc+proto", "application/grpc+json"];
const webTypes = ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"];
const connectTypes = [json, "application/proto", "application/connect+json", "application/connect+proto"];
const rpcTypes = [...grpcTypes, ...webTypes, ...connectTypes];
const empty = Buffer.alloc(0);

/** Bodies of one method, in every format that some protocol of it takes. */
const bodies = (message: Buffer, text: string) => [
  Buffer.from(text),
  message,
  frame(message),
  frame(Buffer.from(text)),
  empty,
];

const get = (path: string): Target => ({ method: "GET", path, types: [], bodies: [] });
const post = (path: string, types: readonly string[], all: readonly Buffer[]): Target => ({
  method: "POST",
  path,
  types,
  bodies: all,
});

const publicTargets = sampleCalls().flatMap(({ route, body }) => {
  const method = methodOn(route);
  if (body === undefined) return [get(route), post(method.rpcPath, rpcTypes, bodies(empty, "{}"))];
  const text = JSON.stringify(body);
  const message = Buffer.from(toBinary(method.desc.input, requestFromRest(method, body)));
  return [post(route, [json], [Buffer.from(text)]), post(method.rpcPath, rpcTypes, bodies(message, text))];
});

const sampleOf = (path: string) => (sampleCalls().find(({ route }) => route === path)?.body ?? {}) as object;

/** Items that are good, poison, and sent twice. */
function itemsOf({ path, like }: (typeof bulkRoutes)[number]): object[] {
  const sample = sampleOf(`/v1/sdk/${like}`);
  const member = /evidence/.test(path) ? "event" : /registrations/.test(path) ? "registration" : undefined;
  const item = member === undefined ? sample : { idempotency_key: "fuzzed", [member]: sample };
  return [item, { ...item, workload: 7 }, item];
}

const bulkTargets = bulkRoutes.flatMap((route) => {
  const method = methodOn(route.path);
  const items = itemsOf(route);
  const text = JSON.stringify({ items });
  const message = Buffer.from(toBinary(method.desc.input, requestFromRest(method, { items: [items[0], items[2]] })));
  return [
    { ...post(route.path, [json], [Buffer.from(text)]), authorized: 0.2 },
    { ...post(method.rpcPath, rpcTypes, bodies(message, text)), authorized: 0.2 },
  ];
});

/** Several messages on a stream: good ones, one that breaks its rules, and one that is no message. */
const streamTargets = bulkStreams.flatMap(({ rpc, like }) => {
  const route = bulkRoutes.find((one) => one.like === like);
  if (route === undefined) return [];
  const bulk = methodOn(route.path);
  const items = itemsOf(route).slice(0, 1);
  const records = toBinary(bulk.desc.input, requestFromRest(bulk, { items })).subarray(1);
  // The item is the first field of a bulk request and the second of one on a stream.
  const message = Buffer.concat([Buffer.from([0x08, 7, 0x12]), records]);
  const good = frame(message);
  const all = [
    good,
    Buffer.concat([good, frame(empty), good]),
    Buffer.concat([good, frame(Buffer.from([0xff])), good]),
    Buffer.concat(Array.from({ length: 300 }, () => good)),
    frame(Buffer.from('{"sequence":"1"}')),
    empty,
  ];
  return [{ ...post(`/platform.bulk.v1.${rpc}`, rpcTypes, all), authorized: 0.6 }];
});

const question = {
  subject: { type: "user", id: "alice", properties: { groups: ["finance", 7, null], deep: { a: [[{}]] } } },
  action: { name: "access" },
  resource: { type: "document", id: "1", properties: { labels: ["restricted"] } },
  context: { understood_obligations: ["watermark"] },
};
const questions: Readonly<Record<string, object>> = {
  "/access/v1/evaluation": question,
  "/access/v1/evaluations": {
    ...question,
    evaluations: [{}, { subject: { type: "principal", id: "payroll-service" } }],
  },
  "/access/v1/search/action": { subject: question.subject, resource: question.resource },
};
const authzenTargets = Object.entries(questions).flatMap(([path, body]) => {
  const method = methodOn(path);
  const text = JSON.stringify(body);
  const message = Buffer.from(toBinary(method.desc.input, requestFromRest(method, body)));
  return [
    { ...post(path, [json], [Buffer.from(text)]), authorized: 0.2 },
    { ...post(method.rpcPath, rpcTypes, bodies(message, text)), authorized: 0.2 },
  ];
});

/** What a key access service asks; the token of the user is none, or one without a signature. */
const fqns = ["https://example.com/attr/class/value/secret", "https://example.com/attr/decision/value/x", "no fqn"];
const resource = (names: readonly string[]) => ({ ephemeralId: "0", resource: attributeValues(names) });
const attributeValues = (names: readonly string[]) => ({ case: "attributeValues", value: { fqns: names } }) as const;
const asked = (jwt: string) => ({
  entityIdentifier: { identifier: { case: "token", value: { ephemeralId: "u", jwt } } },
  action: { name: "read" },
  fulfillableObligationFqns: ["https://example.com/obl/a/value/b"],
});
const decisions = [
  ["GetDecision", GetDecisionRequestSchema, { resource: resource(fqns) }],
  ["GetDecisionMultiResource", GetDecisionMultiResourceRequestSchema, { resources: [resource([]), resource(fqns)] }],
] as const;
const opentdfTargets = [
  ...decisions.flatMap(([name, schema, members]) =>
    ["", "eyJhbGciOiJub25lIn0.e30.", "x".repeat(9_000)].map((jwt) => {
      const message = create(schema as DescMessage, { ...asked(jwt), ...members });
      const bytes = Buffer.from(toBinary(schema as DescMessage, message));
      const all = bodies(bytes, JSON.stringify(toJson(schema as DescMessage, message)));
      return { ...post(`/authorization.v2.AuthorizationService/${name}`, rpcTypes, all), authorized: 0.2 };
    }),
  ),
  post("/wellknownconfiguration.WellKnownService/GetWellKnownConfiguration", rpcTypes, bodies(empty, "{}")),
];

const named = (service: string) => Buffer.from([0x0a, service.length, ...Buffer.from(service)]);
const openTargets = [
  ...["Check", "Watch", "List"].flatMap((name) => [
    post(`/grpc.health.v1.Health/${name}`, rpcTypes, bodies(empty, "{}")),
    post(
      `/grpc.health.v1.Health/${name}`,
      rpcTypes,
      bodies(named("platform.sdk.v1.ProtectionService"), '{"service":"unknown"}'),
    ),
    get(`/grpc.health.v1.Health/${name}?encoding=json&message=%7B%7D&connect=v1`),
  ]),
  ...["v1", "v1alpha"].map((version) =>
    post(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      rpcTypes,
      bodies(Buffer.from([0x3a, 0]), "{}"),
    ),
  ),
  get("/platform.sdk.v1.DiscoveryService/WhoAmI?encoding=json&message=%7B%7D&connect=v1"),
  get("/platform.sdk.v1.DiscoveryService/GetCapabilities?encoding=proto&message=&base64=1&connect=v1"),
];

/** Routes of the service. */
export const serviceTargets: readonly Target[] = [
  ...publicTargets,
  ...bulkTargets,
  ...streamTargets,
  ...authzenTargets,
  ...opentdfTargets,
  ...openTargets,
  post(
    "/v1/sdk/session",
    [json, "application/x-www-form-urlencoded"],
    [Buffer.from('{"client_id":"a","client_secret":"b"}')],
  ),
  ...[
    "/",
    "/openapi.json",
    "/docs",
    "/.well-known/jwks.json",
    "/%",
    "/v1/sdk/%zz",
    "*",
    "//",
    "/v1/sdk/none",
    "/a?b=%00",
  ].map(get),
];

/** Routes of the operator listener. */
export const operatorTargets: readonly Target[] = [
  ...["/livez", "/readyz", "/metrics", "/ledger", "/ledger/tenant-a/checkpoint", "/ledger/x/tile/0/000", "/%"].map(get),
  ...["/ledger/tenant-a/search?record_id=%00", "/ledger/%zz/checkpoint", "/ledger/a/b/c/d"].map(get),
  ...["/console", "/console/ledger?x=%00", "/console/assets/%2e%2e", "/ledger/tenant-a/record/x"].map(get),
  ...["newest=1&summary=1", "last=7d&count_by=reason", "count_by=x", `label=${"x".repeat(9_000)}`].map((query) =>
    get(`/ledger/tenant-a/search?${query}`),
  ),
  post("/ledger/tenant-a/search", [json], [Buffer.from('{"resource_id":"a"}')]),
];

export const methods = "GET POST HEAD PUT DELETE OPTIONS PATCH CONNECT TRACE QUERY PROPFIND M-SEARCH BREW PRI".split(
  " ",
);

/** A header or more that means something somewhere. */
export function oddHeaders(random: Random): [string, string][] {
  const all: [string, string][] = [
    ["expect", random.pick(["100-continue", "miracles"])],
    ["connection", random.pick(["close", "keep-alive", "upgrade", "close, te", "x"])],
    ["upgrade", random.pick(["h2c", "websocket"])],
    ["te", "trailers"],
    ["grpc-timeout", random.pick(["1n", "0m", "99999999H", "-1S", "1S", "abc"])],
    ["connect-timeout-ms", random.pick(["0", "1", "29987.336", "99999999999", "x"])],
    ["connect-protocol-version", random.pick(["1", "2"])],
    ["grpc-encoding", random.pick(["identity", "gzip", "br", "x"])],
    ["connect-content-encoding", random.pick(["gzip", "br"])],
    ["content-encoding", random.pick(["gzip", "br", "identity", "x"])],
    ["accept", random.pick(["text/html", "application/json", "*/*;q=x"])],
    ["accept-encoding", "gzip, br"],
    ["x-request-id", random.pick(["abc-1", " ", "a b", "a".repeat(200)])],
    ["idempotency-key", random.pick(["k", "\u00ff"])],
    [
      "authorization",
      random.pick(["Bearer", "Bearer x.y.z", "Bearer eyJhbGciOiJub25lIn0.e30.", "DPoP x", "Basic YTpi"]),
    ],
    ["dpop", "x.y.z"],
    ["x-svc-tenant-id", random.pick(["tenant-a", "../b"])],
    ["x-svc-receipt", random.pick(["brief", "none", "x"])],
    ["if-none-match", random.pick(["*", '"a"', 'W/"'])],
    ["forwarded", "for=1.2.3.4"],
    ["cookie", "a=b"],
    ["host", random.pick(["other", "", "a b", "[::1]:80"])],
    [`x-${random.below(1000)}`, "a".repeat(random.below(300))],
  ];
  return Array.from({ length: random.below(4) }, () => random.pick(all));
}
