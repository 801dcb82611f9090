/** A refusal comes before the body is read: its caller gets to read the answer, and cannot hold the stream for ever. */
import { once } from "node:events";
import http2 from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";

let gateway: Gateway;
let session: http2.ClientHttp2Session;

beforeAll(async () => {
  gateway = await startGateway();
  session = http2.connect(gateway.url);
});
afterAll(async () => {
  session.close();
  await gateway.stop();
});

test("over HTTP/2 the stream outlives the answer, for a body that is on its way, but not for ever", async () => {
  // Without credentials, and keeping the body back.
  const stream = session.request({ ":method": "POST", ":path": "/v1/sdk/evidence" }, { endStream: false });
  const [headers] = await once(stream, "response");
  expect(headers[":status"]).toBe(401);
  await once(stream.resume(), "end");
  const answeredAt = performance.now();
  await once(stream, "close");
  expect(performance.now() - answeredAt).toBeGreaterThan(1_000);
  expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
});
