/** Streams of evidence and registrations: what is acknowledged is durable, and what is sent again is not recorded again. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  BulkStreamService,
  type StreamEventsRequest,
  StreamEventsRequestSchema,
} from "../../gen/platform/bulk/v1/streams_pb.ts";
import { EvidenceEventType } from "../../gen/platform/sdk/v1/common_pb.ts";
import { type Gateway, gatewayForFile, rest, startGateway } from "../harness/gateway.ts";
import { frame } from "../harness/grpc.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { testStores } from "../harness/stores.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const event = (sequence: number, key: string = `key-${sequence}`, application = "payroll"): StreamEventsRequest =>
  create(StreamEventsRequestSchema, {
    sequence: BigInt(sequence),
    item: {
      idempotencyKey: key,
      event: { eventType: EvidenceEventType.PROTECT, workload: { application }, resource: { kind: "record" } },
    },
  });

/** A source of requests that the test fills and ends. */
function source<T>() {
  const items: T[] = [];
  let isOver = false;
  let wake = () => {};
  return {
    send(...more: readonly T[]) {
      items.push(...more);
      wake();
    },
    end() {
      isOver = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const next = items.shift();
        if (next !== undefined) yield next;
        else if (isOver) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

const connectOverHttp2: typeof createGrpcTransport = (options) =>
  createConnectTransport({ ...options, httpVersion: "2" });

function clientOf(url: string, make = createGrpcTransport) {
  const sessionManager = new Http2SessionManager(url);
  onTestFinished(() => sessionManager.abort());
  return createClient(BulkStreamService, make({ baseUrl: url, sessionManager }));
}

describe.each(testStores)("%s", async (_name, startStore) => {
  const store = await forFile(startStore());
  const gateway = await gatewayForFile({ dataDir: store.folder, env: { ...store.settings, SVC_BULK: "on" } });
  const token = await gateway.token();
  const headers = { authorization: `Bearer ${token}` };

  test.each([
    ["gRPC", createGrpcTransport],
    ["Connect", connectOverHttp2],
  ])(
    "%s: acknowledges in order, by number and key, and repeats the acknowledgement without a second record",
    async (_protocol, make) => {
      const prefix = randomUUID();
      const sent = Array.from({ length: 700 }, (_, i) => event(i * 3, `${prefix}-${i}`));
      const poison = { ...event(1, `${prefix}-bad`), item: { ...event(1, `${prefix}-bad`).item, event: undefined } };
      sent.splice(350, 0, create(StreamEventsRequestSchema, poison as never));
      const run = async () => {
        const requests = source<StreamEventsRequest>();
        requests.send(...sent);
        requests.end();
        const acknowledged = [];
        for await (const { items } of clientOf(gateway.url, make).streamEvents(requests, { headers }))
          acknowledged.push(...items);
        return acknowledged;
      };
      const first = await run();
      expect(first.map(({ sequence }) => sequence)).toEqual(sent.map(({ sequence }) => sequence));
      expect(first.map(({ result }) => result?.idempotencyKey)).toEqual(sent.map(({ item }) => item?.idempotencyKey));
      expect(first[350]?.result?.error?.violations.map(({ field }) => field)).toEqual(["event"]);
      const indices = first.flatMap(({ result }) => result?.ingestion?.receipt?.leafIndex ?? []);
      expect(indices).toEqual(indices.map((_, i) => (indices[0] as bigint) + BigInt(i)));
      expect(indices).toHaveLength(700);
      const again = await run();
      expect(again.flatMap(({ result }) => result?.ingestion?.receipt?.leafIndex ?? [])).toEqual(indices);
    },
  );

  test("acknowledges before the stream ends, and reports events that the caller may not record", async () => {
    const requests = source<StreamEventsRequest>();
    const answers = clientOf(gateway.url).streamEvents(requests, { headers })[Symbol.asyncIterator]();
    for (let i = 0; i < 5; i++) {
      requests.send(event(i, randomUUID()));
      const { value } = await answers.next();
      expect(value.items.map(({ sequence }: { sequence: bigint }) => sequence)).toEqual([BigInt(i)]);
    }
    requests.end();
    expect((await answers.next()).done).toBe(true);
  });

  test.each([
    ["text that is not UTF-8", [0xc3, 0x28]],
    ["a member twice", [...Buffer.from('a","application":"b')]],
    ["a lone surrogate", [...Buffer.from("\\ud800")]],
    ["an unknown member", [...Buffer.from('a","plaintext":"secret')]],
  ])("in JSON, %s is refused, and none of it is recorded", async (_what, bytes) => {
    const [before = "", after = ""] = JSON.stringify({
      sequence: "1",
      item: {
        idempotencyKey: randomUUID(),
        event: {
          eventType: "EVIDENCE_EVENT_TYPE_PROTECT",
          workload: { application: "HERE" },
          resource: { kind: "record" },
        },
      },
    }).split("HERE");
    const session = await h2Connect(gateway.url);
    const send = async (content: Buffer) => {
      const { body } = await h2Call(session, {
        path: "/platform.bulk.v1.BulkStreamService/StreamEvents",
        headers: { ...headers, "content-type": "application/connect+json" },
        body: frame(Buffer.concat([Buffer.from(before), content, Buffer.from(after)])),
      });
      return body.toString();
    };
    expect(await send(Buffer.from(bytes))).toContain('"error":{"code":"invalid_argument"');
    // The key is free.
    expect(await send(Buffer.from("payroll"))).toContain("ITEM_OUTCOME_ANSWERED");
  });

  test("a caller that does not read receives no more than its window, and other callers go on", async () => {
    const requests = source<StreamEventsRequest>();
    const big = "x".repeat(200);
    let asked = 0;
    const counted = (async function* () {
      for await (const request of requests) {
        asked += 1;
        yield request;
      }
    })();
    requests.send(...Array.from({ length: 20_000 }, (_, i) => event(i, `${i}-${randomUUID()}`, big)));
    const stop = new AbortController();
    const answers = clientOf(gateway.url).streamEvents(counted, { headers, signal: stop.signal });
    const iterator = answers[Symbol.asyncIterator]();
    await iterator.next();
    // Nothing is read from here on: what is sent comes to an end.
    let before = -1;
    const isStanding = () => {
      const stands = asked === before;
      before = asked;
      return stands;
    };
    await expect.poll(isStanding, { interval: 500 }).toBe(true);
    expect(asked).toBeLessThan(20_000);
    expect((await rest(`${gateway.url}/v1/sdk/whoami`, { token })).status).toBe(200);
    stop.abort();
    await iterator.next().catch(() => {});
  });

  test("a caller that disconnects before its answer, whatever it sent, is one log line and no failure", async () => {
    using complaints = vi.spyOn(console, "error");
    // RFC 9113 §7: none, and every error; each to a connection that takes no more of its answer.
    const leave = async (code: number) => {
      const id = `leaves-${code}-${randomUUID()}`;
      const session = await h2Connect(gateway.url, { settings: { initialWindowSize: 0 } });
      const path = "/platform.bulk.v1.BulkStreamService/StreamEvents";
      const fields = { "content-type": "application/grpc", "x-request-id": id, ...headers };
      const stream = session.request({ ":method": "POST", ":path": path, ...fields });
      stream.on("error", () => {});
      const message = (i: number) => frame(toBinary(StreamEventsRequestSchema, event(i, `${id}-${i}`)));
      stream.write(Buffer.concat(Array.from({ length: 60 }, (_, i) => message(i))));
      await once(stream, "response");
      if (code === 0) session.destroy();
      else session.goaway(code);
      const line = () => gateway.logged.find((text) => text.includes(id));
      await expect.poll(line).toMatch(/"reason":"canceled"/);
      session.destroy();
    };
    await Promise.all(Array.from({ length: 14 }, (_, code) => leave(code)));
    expect(complaints.mock.calls).toEqual([]);
  });
});

const issuer = await issuerForFile();

describe("a stream's end", () => {
  const scope = "platform-api.access evidence.write";
  const tokenFor = (claims: object = {}) => issuer.token({ scope, ...claims });
  const settings = () => ({ SVC_OIDC_ISSUER: issuer.url, SVC_BULK: "on" });

  async function refusalOf(gateway: Gateway, token: string, ...events: readonly StreamEventsRequest[]) {
    const requests = source<StreamEventsRequest>();
    requests.send(...events);
    const acknowledged: bigint[] = [];
    const headers = { authorization: `Bearer ${token}` };
    try {
      for await (const { items } of clientOf(gateway.url).streamEvents(requests, { headers }))
        acknowledged.push(...items.map(({ sequence }) => sequence));
    } catch (error) {
      return { error: ConnectError.from(error), acknowledged };
    }
    return { error: undefined, acknowledged };
  }

  test("refuses a stream without credentials or scope, and ends idle streams and expired tokens after their events are recorded", async () => {
    const limits = { bulkIdleTimeoutMs: 300 };
    const gateway = await forTest(startGateway({ env: settings(), overrides: { limits } }));
    expect((await refusalOf(gateway, "none", event(1))).error?.code).toBe(Code.Unauthenticated);
    const unscoped = await refusalOf(gateway, tokenFor({ scope: "platform-api.access" }), event(1));
    expect(unscoped).toMatchObject({ error: { code: Code.PermissionDenied }, acknowledged: [] });
    const idle = await refusalOf(gateway, tokenFor(), event(1), event(2));
    expect(idle).toMatchObject({ error: { code: Code.DeadlineExceeded }, acknowledged: [1n, 2n] });
  });

  test("a stream ends when its token expires", async () => {
    const gateway = await forTest(startGateway({ env: settings() }));
    // Expired already, as far as clocks may differ: 30 s.
    const exp = Math.floor(Date.now() / 1000) - 27;
    const { error, acknowledged } = await refusalOf(gateway, tokenFor({ exp }), event(1));
    expect([error?.code, acknowledged]).toEqual([Code.Unauthenticated, [1n]]);
  });

  /** A stream that is open, with one event acknowledged on it; and what becomes of the next. */
  async function openStream(gateway: Gateway, token: string) {
    const requests = source<StreamEventsRequest>();
    const headers = { authorization: `Bearer ${token}` };
    const answers = clientOf(gateway.url).streamEvents(requests, { headers })[Symbol.asyncIterator]();
    requests.send(event(1, randomUUID()));
    const [first] = (await answers.next()).value.items;
    const next = async () => {
      requests.send(event(2, randomUUID()));
      return answers.next().then(
        ({ value }) => value.items[0].result.ingestion.receipt.leafIndex as bigint,
        (thrown: unknown) => ConnectError.from(thrown).code,
      );
    };
    return { leafIndex: first.result.ingestion.receipt.leafIndex as bigint, next };
  }

  test("a stream ends when the key of its token is withdrawn, and records nothing more", async () => {
    const [old, young] = [newTestKey("ES256", "old"), newTestKey("ES256", "young")];
    const rotating = await forTest(startStaticIssuer([old.publicJwk]));
    const gateway = await forTest(startGateway({ env: { ...settings(), SVC_OIDC_ISSUER: rotating.url } }));
    const signed = (by: typeof old) => mintToken(by, claimsOf(rotating.url, Date.now(), { scope }));
    const { leafIndex, next } = await openStream(gateway, signed(old));
    expect(await next()).toBe(leafIndex + 1n);
    rotating.keys = [young.publicJwk];
    // The new key's first token has the gateway look at the set.
    const whoAmI = await rest(`${gateway.url}/v1/sdk/whoami`, { token: signed(young) });
    expect(whoAmI.status).toBe(200);
    expect(await next()).toBe(Code.Unauthenticated);
    const { leafIndex: after } = await openStream(gateway, signed(young));
    expect(after).toBe(leafIndex + 2n);
  });
});
