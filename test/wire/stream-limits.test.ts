/** Streams that need no credentials: a client that opens many keeps no other out. */
import { type Client, Code, type ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, onTestFinished, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { conversationLimits, watchLimits } from "../../src/transport/connect/streams.ts";
import { gatewayForFile, startGateway } from "../harness/gateway.ts";

const gateway = await gatewayForFile({ env: { SVC_TRUSTED_PROXIES: "127.0.9.0/24" } });

/** Opens one stream and waits for its first answer; the code of the refusal where it is refused. */
type Opener = (signal: AbortSignal) => Promise<Code | undefined>;

/** A connection of its own. `forwardedFor` says for whom it speaks. */
function connection(localAddress: string, forwardedFor?: string) {
  const transport = createGrpcTransport({ baseUrl: gateway.url, nodeOptions: { localAddress } as object });
  const headers = forwardedFor === undefined ? {} : { headers: { "x-forwarded-for": forwardedFor } };
  const health: Client<typeof Health> = createClient(Health, transport);
  const reflection = createClient(ServerReflection, transport);
  const watch: Opener = (signal) => first(health.watch({}, { signal, ...headers }));
  const converse: Opener = (signal) => first(reflection.serverReflectionInfo(askOnce(signal), { signal, ...headers }));
  return { watch, converse };
}

async function first(answers: AsyncIterable<unknown>): Promise<Code | undefined> {
  return answers[Symbol.asyncIterator]()
    .next()
    .then(
      () => undefined,
      (error: ConnectError) => error.code,
    );
}

async function* askOnce(signal: AbortSignal) {
  yield { messageRequest: { case: "listServices" as const, value: "" } };
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
}

/** Opens streams until one is refused for what its caller has open, and says how many there are. */
async function fill(open: Opener, signal: AbortSignal): Promise<number> {
  for (let opened = 0; ; opened++) {
    const code = await open(signal);
    if (code === Code.ResourceExhausted) return opened;
    if (code !== undefined || opened > 1_000) throw new Error(`unexpected: ${code} after ${opened}`);
  }
}

function ending(): AbortController {
  const abort = new AbortController();
  onTestFinished(() => abort.abort());
  return abort;
}

describe.each([
  ["watch", watchLimits],
  ["converse", conversationLimits],
] as const)("%s", (kind, { perConnection, perAddress }) => {
  const address = kind === "watch" ? "127.0.1" : "127.0.2";

  test("a connection and an address have a bounded number, and other addresses their own", async () => {
    const { signal } = ending();
    expect(await fill(connection(`${address}.1`)[kind], signal)).toBe(perConnection);
    let opened = perConnection;
    for (let more = 1; more > 0; opened += more) more = await fill(connection(`${address}.1`)[kind], signal);
    expect(opened).toBe(perAddress);
    expect(await connection(`${address}.2`)[kind](signal)).toBeUndefined();
    // The other kind is untouched, for the same address too.
    expect(await connection(`${address}.1`)[kind === "watch" ? "converse" : "watch"](signal)).toBeUndefined();
  });

  test("ended streams make room", async () => {
    const abort = ending();
    const { [kind]: open } = connection(`${address}.3`);
    expect(await fill(open, abort.signal)).toBe(perConnection);
    abort.abort();
    const { signal } = ending();
    let opened = 0;
    const fillUp = async () => {
      opened += await fill(open, signal);
      return opened;
    };
    await expect.poll(fillUp).toBe(perConnection);
  });

  test("callers behind the ingress are counted separately, on one connection too", async () => {
    const { signal } = ending();
    const behind = (forwardedFor: string) => connection("127.0.9.1", forwardedFor)[kind];
    expect(await fill(behind(kind === "watch" ? "2001:db8::1" : "2001:db8:1::1"), signal)).toBe(perConnection);
    expect(await behind(kind === "watch" ? "2001:db8:0:1::1" : "2001:db8:1:1::1")(signal)).toBeUndefined();
  });

  test("one network cannot take all of them", async () => {
    const { signal } = ending();
    const { perNeighbourhood, inAll } = kind === "watch" ? watchLimits : conversationLimits;
    expect(perNeighbourhood * 4).toBeLessThanOrEqual(inAll);
    const network = kind === "watch" ? "127.0.3" : "127.0.4";
    let opened = 0;
    for (let host = 1; host <= perNeighbourhood / perConnection; host++)
      opened += await fill(connection(`${network}.${host}`)[kind], signal);
    expect(opened).toBe(perNeighbourhood);
    expect(await connection(`${network}.250`)[kind](signal)).toBe(Code.ResourceExhausted);
    expect(await connection(kind === "watch" ? "127.0.5.1" : "127.0.6.1")[kind](signal)).toBeUndefined();
  });
});

test("a graceful shutdown ends them, on every protocol", async () => {
  const closing = await startGateway();
  const options = { baseUrl: closing.url };
  const never = ending();
  const streams = [
    createClient(Health, createGrpcTransport(options)).watch({}),
    createClient(Health, createGrpcTransport(options)).watch({ service: "nobody" }),
    createClient(Health, createConnectTransport({ ...options, httpVersion: "2" })).watch({}),
    createClient(Health, createConnectTransport({ ...options, httpVersion: "1.1" })).watch({}),
    createClient(ServerReflection, createGrpcTransport(options)).serverReflectionInfo(askOnce(never.signal)),
  ].map((stream) => (stream as AsyncIterable<unknown>)[Symbol.asyncIterator]());
  for (const stream of streams) expect(await stream.next()).toMatchObject({ done: false });
  const lasts = Promise.all(streams.map(lastOf));
  expect(await closing.app.close()).toBe(true);
  for (const last of await lasts) if (last !== undefined) expect(last).toMatchObject({ status: Status.NOT_SERVING });
  await closing.issuer.stop();
});

async function lastOf(stream: AsyncIterator<unknown>): Promise<unknown> {
  let last: unknown;
  for (let step = await stream.next(); step.done !== true; step = await stream.next()) last = step.value;
  return last;
}
