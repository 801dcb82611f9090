import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import { checkTimeoutMs, type ReadinessCheck } from "../../../src/ops/readiness.ts";
import { h1Exchange, h1Request } from "../../harness/h1.ts";
import { manualTime } from "../auth/world.ts";
import { startOps } from "./start.ts";

const holds: ReadinessCheck = { name: "policy", check: async () => {} };

describe("readiness", () => {
  test("follows the checks in both directions", async () => {
    let fault: Error | undefined;
    const store: ReadinessCheck = {
      name: "store",
      check: async () => {
        if (fault !== undefined) throw fault;
      },
    };
    const { request } = await startOps({ checks: [store, holds] });
    const expectReady = async () => {
      const response = await request("/readyz");
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({
        service: "svc",
        status: "ready",
        checks: [
          { name: "store", status: "ok" },
          { name: "policy", status: "ok" },
        ],
      });
    };
    await expectReady();
    fault = new ServiceError("store_unavailable", "the store cannot write");
    const response = await request("/readyz");
    expect(response.status).toBe(503);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toMatchObject({
      status: "not_ready",
      checks: [
        { name: "store", status: "failed", reason: "the store cannot write" },
        { name: "policy", status: "ok" },
      ],
    });
    fault = undefined;
    await expectReady();
  });

  test("reveals no internal error", async () => {
    const { request } = await startOps({
      checks: [{ name: "store", check: () => Promise.reject(new Error("/secret/path")) }],
    });
    const body = await (await request("/readyz")).text();
    expect(body).toContain("internal error");
    expect(body).not.toContain("/secret/path");
  });

  test("does not wait for a check that hangs, and aborts it", async () => {
    const timers = manualTime();
    const started = Promise.withResolvers<AbortSignal>();
    const hangs: ReadinessCheck = {
      name: "store",
      check: (signal) => {
        started.resolve(signal);
        return new Promise(() => {});
      },
    };
    const { request } = await startOps({ checks: [hangs, holds], timers });
    const answer = request("/readyz");
    const signal = await started.promise;
    expect(checkTimeoutMs).toBeLessThan(2_000);
    timers.advance(checkTimeoutMs);
    const response = await answer;
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ checks: [{ reason: "no answer within 1500 ms" }, { status: "ok" }] });
    expect(signal.aborted).toBe(true);
    expect(timers.pending()).toBe(0);
  });
});

describe("a page in a browser of this machine cannot read it under another host name", () => {
  const statusFor = async (url: string, host: string) =>
    (await h1Exchange(url, `GET /metrics HTTP/1.1\r\nHost: ${host}\r\n\r\n`))?.status;

  test("on loopback", async () => {
    const { url } = await startOps();
    for (const host of ["localhost", "LOCALHOST:9090", "127.0.0.1:9090", "127.8.9.1", "[::1]:9090"])
      expect([host, await statusFor(url, host)]).toEqual([host, 200]);
    for (const host of [
      "attacker.example",
      "attacker.example:9090",
      "127.0.0.1.attacker.example",
      "localhost.a",
      "10.0.0.1",
      "[::2]",
      "a@localhost",
    ])
      expect([host, await statusFor(url, host)]).toEqual([host, 404]);
  });

  test("off loopback it is served under any name", async () => {
    const { url } = await startOps({ loopback: false });
    expect(await statusFor(url, "ops.internal:9090")).toBe(200);
  });
});

describe("a request with a fault is refused in the envelope", () => {
  test.each([
    ["GET", "/", 404, "not_found", "no_route"],
    ["GET", "/readyz/", 404, "not_found", "no_route"],
    ["GET", "/v1/sdk/whoami?token=a", 404, "not_found", "no_route"],
    ["POST", "/readyz", 405, "unimplemented", "method_not_allowed"],
    ["DELETE", "/metrics?a=b", 405, "unimplemented", "method_not_allowed"],
    ["POST", "/ledger", 404, "not_found", "no_route"],
  ])("%s %s", async (method, path, status, code, reason) => {
    const { request } = await startOps();
    const body = method === "POST" ? { body: "a,b", headers: { "content-type": "text/csv" } } : {};
    const response = await request(path, { method, ...body });
    expect(response.status).toBe(status);
    expect(response.headers.get("allow")).toBe(status === 405 ? "GET, HEAD" : null);
    expect(await response.json()).toEqual({
      service: "svc",
      status: "error",
      error: { code, reason, message: expect.any(String), request_id: response.headers.get("x-request-id") },
    });
  });

  test.each([
    ["no HTTP", "NONSENSE\r\n\r\n", 400],
    ["headers that are too large", `GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431],
    ["a path that cannot be read", h1Request("GET /ledger/%zz/checkpoint", []), 404],
    ["a tunnel", h1Request("CONNECT localhost:80", []), 405],
    ["an undefined expectation", h1Request("GET /livez", ["Expect: miracles"]), 417],
    ["an undefined method", h1Request("PROPFIND /livez", []), 405],
    ["no host", "GET /livez HTTP/1.1\r\n\r\n", 404],
    ["two hosts", "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n", 400],
    ["a host twice", "GET /livez HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n", 400],
  ])("%s", async (_name, bytes, status) => {
    const { url } = await startOps();
    const answer = await h1Exchange(url, bytes);
    expect(answer?.status).toBe(status);
    expect(JSON.parse(answer?.text ?? "")).toMatchObject({
      service: "svc",
      status: "error",
      error: { request_id: answer?.headers.get("x-request-id") },
    });
  });

  test("the caller's request id is kept if it is valid", async () => {
    const { request } = await startOps();
    const idFor = async (id: string) =>
      (await request("/none", { headers: { "x-request-id": id } })).headers.get("x-request-id");
    expect(await idFor("abc-1")).toBe("abc-1");
    expect(await idFor("a b")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("a failure is logged, and not revealed", async () => {
    const { request, lines } = await startOps({
      metrics: { expose: () => Promise.reject(new Error("inner detail")) },
    });
    const response = await request("/metrics");
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("inner detail");
    expect(lines.join("")).toContain("inner detail");
  });
});
