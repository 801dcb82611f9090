/** Deadlines as clients send them: in any unit, and hardly ever whole milliseconds. */
import { endStreamFromJson } from "@connectrpc/connect/protocol-connect";
import { afterAll, afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import { gatewayForFile } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { type H2Answer, h2Call, h2Connect } from "../harness/h2.ts";

/** What Connect's handlers write of what they did not expect. */
let complaints: MockInstance;

const gateway = await gatewayForFile();
const session = await h2Connect(gateway.url);
const token = await gateway.token();
afterAll(() => {
  // With what is under way on it, where something goes on that should have ended.
  session.destroy();
});
beforeEach(() => {
  complaints = vi.spyOn(console, "error");
});
afterEach(() => {
  expect(complaints).not.toHaveBeenCalled();
  complaints.mockRestore();
});

const check = "/grpc.health.v1.Health/Check";
const watch = "/grpc.health.v1.Health/Watch";
const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const reflectionAlpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const whoAmI = "/platform.sdk.v1.DiscoveryService/WhoAmI";
/** `list_services` of a reflection request. */
const listServices = Buffer.from([0x3a, 0x01, 0x2a]);
const bodies = new Map([
  [reflection, listServices],
  [reflectionAlpha, listServices],
]);

function call(path: string, headers: Readonly<Record<string, string>>, unfinished = false): Promise<H2Answer> {
  return h2Call(session, {
    path,
    headers: { "content-type": "application/grpc", authorization: `Bearer ${token}`, ...headers },
    body: frame(bodies.get(path) ?? Buffer.alloc(0)),
    unfinished,
  });
}

/** Far more than the deadline of a call that is near, on a busy machine too. */
const patienceMs = 8_000;

/** The answer to a call whose deadline is near: a stream that goes on is a failure, and no reason to wait for its end. */
async function endedCall(answer: Promise<H2Answer>): Promise<H2Answer> {
  const goesOn = new Promise<"goes on">((resolve) => {
    setTimeout(resolve, patienceMs, "goes on").unref();
  });
  const ended = await Promise.race([answer, goesOn]);
  expect(ended).not.toBe("goes on");
  return ended as H2Answer;
}

describe("a distant deadline", () => {
  const timeouts = ["29987336u", "29999999u", "99999999u", "30000m", "29S", "5M", "99999999H", "99999999m"];
  test.each(timeouts)("%s: unary calls and conversations are answered", async (timeout) => {
    for (const path of [check, whoAmI, reflection, reflectionAlpha]) {
      const answer = await call(path, { "grpc-timeout": timeout });
      expect([path, answer.status, answer.trailers["grpc-status"]]).toEqual([path, 200, "0"]);
      expect(answer.body.byteLength).toBeGreaterThan(5);
    }
  });
});

describe("a near deadline", () => {
  test.each(["99999999n", "123456n", "150001u", "99u", "150m", "1n"])("%s ends streams", async (timeout) => {
    for (const path of [watch, reflection, reflectionAlpha]) {
      const answer = await endedCall(call(path, { "grpc-timeout": timeout }, path !== watch));
      expect(answer.status).toBe(200);
      expect(refusalInTrailers(answer.trailers)).toMatchObject({
        code: "deadline_exceeded",
        reason: "deadline_exceeded",
      });
    }
  });

  test("the first state arrives before the deadline", async () => {
    const { body } = await endedCall(call(watch, { "grpc-timeout": "500001u" }));
    expect([...body]).toEqual([...frame(Buffer.from([0x08, 0x01]))]);
  });

  test.each(["application/grpc", "Application/grpc"])(
    "a call whose message never arrives ends at it, %s",
    async (type) => {
      const headers = { "content-type": type, "grpc-timeout": "50001u", authorization: `Bearer ${token}` };
      for (const path of [watch, whoAmI]) {
        const answer = await endedCall(h2Call(session, { path, headers, unfinished: true }));
        expect(refusalInTrailers(answer.trailers)).toMatchObject({ reason: "deadline_exceeded" });
      }
    },
  );

  test("gRPC-Web and Connect enforce it on streams", async () => {
    const web = await endedCall(
      call(watch, { "content-type": "application/grpc-web+proto", "grpc-timeout": "150001u" }),
    );
    expect(web.body.toString("latin1")).toMatch(/grpc-status: 4\r\n/);
    const connect = await endedCall(
      call(watch, { "content-type": "application/connect+proto", "connect-timeout-ms": "150" }),
    );
    const first = connect.body.readUInt32BE(1);
    const { error } = endStreamFromJson(connect.body.subarray(5 + first + 5));
    expect(error?.rawMessage).toBe("the deadline has passed");
  });
});

describe("a malformed deadline", () => {
  test.each(["29987.336m", "1.5S", "-1m", "123456789n", "5", ""])("%j is refused over gRPC", async (timeout) => {
    for (const path of [check, watch, reflection, whoAmI]) {
      const answer = await call(path, { "grpc-timeout": timeout });
      expect(refusalInTrailers(answer.trailers)).toMatchObject({ code: "invalid_argument", reason: "invalid_request" });
    }
  });
});
