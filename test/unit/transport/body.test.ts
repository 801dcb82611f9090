import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { readBody } from "../../../src/transport/body.ts";
import { callerGone } from "../../../src/transport/deadline.ts";

const limits = { maxBytes: 10, timeoutMs: 60_000 };
const patient = () => new AbortController().signal;

/** A body of which some has come. */
function bodyWith(...arrived: string[]): Readable {
  const stream = new Readable({ read: () => {} });
  for (const chunk of arrived) stream.push(chunk);
  return stream;
}

async function reasonOf(reading: Promise<Buffer>): Promise<unknown> {
  return reading.then(
    (body) => body.toString(),
    (refusal: { reason: string }) => refusal.reason,
  );
}

describe("a body", () => {
  test("that has come whole is read at once, and its stream ends though nobody reads on", async () => {
    const stream = bodyWith("01234", "56789");
    expect((await readBody(stream, 10, limits, patient())).toString()).toBe("0123456789");
    expect(stream.listenerCount("data")).toBe(0);
    stream.push(null);
    await once(stream, "end");
  });

  test.each([
    ["of a declared length", 10],
    ["of no declared length", undefined],
  ])("%s that comes in parts is read to its end", async (_name, declaredBytes) => {
    const stream = bodyWith("01234");
    const reading = readBody(stream, declaredBytes, limits, patient());
    stream.push("56789");
    stream.push(null);
    expect((await reading).toString()).toBe("0123456789");
  });

  test("that is empty is read to its end", async () => {
    const stream = bodyWith();
    const reading = readBody(stream, 0, limits, patient());
    stream.push(null);
    expect((await reading).byteLength).toBe(0);
  });

  test("is refused where it is declared, or is, too large", async () => {
    expect(await reasonOf(readBody(bodyWith("0123456789a"), 11, limits, patient()))).toBe("body_too_large");
    const stream = bodyWith("0123456789a");
    expect(await reasonOf(readBody(stream, undefined, limits, patient()))).toBe("body_too_large");
    expect(stream.isPaused()).toBe(true);
  });

  test("is refused where the call is over, though it has come", async () => {
    const signal = AbortSignal.abort(callerGone);
    expect(await reasonOf(readBody(bodyWith("0123456789"), 10, limits, signal))).toBe("canceled");
  });

  test("is refused where it ends early, where the call ends first, and where it takes too long", async () => {
    const stream = bodyWith("0");
    const early = readBody(stream, 10, limits, patient());
    stream.destroy();
    expect(await reasonOf(early)).toBe("canceled");
    const controller = new AbortController();
    const aborted = readBody(bodyWith("0"), 10, limits, controller.signal);
    controller.abort(callerGone);
    expect(await reasonOf(aborted)).toBe("canceled");
    expect(await reasonOf(readBody(bodyWith("0"), 10, { ...limits, timeoutMs: 1 }, patient()))).toBe("request_timeout");
  });
});

test("requests on one connection, each in one piece with its body, are answered in order and end", async () => {
  const requests: IncomingMessage[] = [];
  const server = createServer(async (request, response) => {
    requests.push(request);
    // As after the gate: Node has run what it does after the first part of the body.
    await Promise.resolve();
    const declaredBytes = Number(request.headers["content-length"]);
    const body = await readBody(request, declaredBytes, limits, patient());
    response.end(`<${body}>`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const request = (body: string, last = "") =>
    `POST / HTTP/1.1\r\nhost: h\r\n${last}content-length: ${body.length}\r\n\r\n${body}`;
  socket.write(request("one") + request("") + request("three") + request("four", "connection: close\r\n"));
  const answers = await text(socket);
  expect(answers.match(/<\w*>/g)).toEqual(["<one>", "<>", "<three>", "<four>"]);
  expect(requests.map(({ complete, readableEnded }) => [complete, readableEnded])).toEqual(Array(4).fill([true, true]));
  server.close();
});
