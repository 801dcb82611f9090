import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import { applyRules, createLogger, type LogLevel, scrub, writeOnceATurn } from "../../../src/telemetry/logger.ts";

function capture(level: LogLevel = "info") {
  const lines: string[] = [];
  const logger = createLogger({ level, serviceName: "svc", destination: { write: (line) => void lines.push(line) } });
  return { logger, lines, only: () => JSON.parse(lines.join("")) as Record<string, unknown> };
}

describe("a log line", () => {
  test("is one JSON object with time, level in words, service, fields and message", () => {
    const { logger, lines, only } = capture();
    logger.info({ request_id: "r-1", duration_ms: 1.5 }, "request");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]+\n$/);
    expect(only()).toEqual({
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      service: "svc",
      request_id: "r-1",
      duration_ms: 1.5,
      message: "request",
    });
  });

  test("contains no line break, for any text", () => {
    const { logger, lines } = capture();
    logger.info({ text: "a\nb\u2028c\u0000" }, 'quote " and\r\n{"level":"fatal"}');
    expect(lines.join("").trimEnd()).not.toContain("\n");
  });
});

describe("a logged error", () => {
  test("has its type, code, reason, causes and their stacks, and no other properties", () => {
    const { logger, lines, only } = capture();
    const socket = Object.assign(new Error("connect failed"), { code: "ECONNREFUSED", headers: { cookie: "c00kie" } });
    const refusal = new ServiceError("store_unavailable", "the store is down", { cause: socket });
    logger.error({ err: refusal }, "request failed");
    expect(only().err).toEqual({
      type: "ServiceError",
      message: "the store is down",
      reason: "store_unavailable",
      code: "unavailable",
      cause: expect.objectContaining({
        type: "Error",
        message: "connect failed",
        code: "ECONNREFUSED",
        stack: expect.stringContaining("logger.test.ts"),
      }),
    });
    expect(lines.join("")).not.toContain("c00kie");
  });

  test("may be an aggregate, a text, undefined, or its own cause", () => {
    const { logger, lines } = capture();
    const circle = new Error("circle");
    circle.cause = circle;
    for (const err of [new AggregateError([new Error("one"), "two"], "many"), "text", undefined, circle, { a: 1 }]) {
      logger.error({ err }, "failed");
    }
    expect(lines).toHaveLength(5);
    expect(JSON.parse(lines[0] as string).err.errors).toMatchObject([{ message: "one" }, { message: "two" }]);
    expect(JSON.parse(lines[1] as string).err).toEqual({ type: "string", message: "text" });
  });
});

describe("secrets are removed from a log line, wherever they occur", () => {
  const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
  const key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n";

  test.each([
    ["a member", { authorization: "s3cr3t-value" }],
    [
      "a member below",
      { request: { headers: { Authorization: "s3cr3t-value", "x-svc-mtls-client-certificate": "s3cr3t" } } },
    ],
    ["a member with quotes in its text", { client_secret: 'a"s3cr3t' }],
    ["JSON in a text", { body: JSON.stringify({ client_secret: 's3cr3t"s3cr3t' }) }],
    ["a form in a text", { body: "grant_type=client_credentials&client_secret=s3cr3t&scope=a" }],
    ["a bearer token in a text", { note: "sent Bearer s3cr3t-value to it" }],
    ["a DPoP token in a text", { note: "dpop s3cr3t-value" }],
    ["a JSON Web Token", { note: `got ${token}` }],
    ["a private key", { note: `read ${key}` }],
    [
      "a URL-encoded certificate",
      { note: encodeURIComponent("-----BEGIN CERTIFICATE-----\nMIGHs3cr3t\n-----END CERTIFICATE-----") },
    ],
    ["the password of a URL", { note: "postgres://user:s3cr3t@db.example/svc" }],
    ["the message and stack of an error", { err: new Error(`cannot use ${token} and Bearer s3cr3t-value`) }],
  ])("%s", (_name, fields) => {
    const { logger, lines } = capture();
    logger.info(fields, "line");
    expect(() => JSON.parse(lines.join(""))).not.toThrow();
    expect(lines.join("")).toContain("[cut]");
    expect(lines.join("")).not.toMatch(/s3cr3t|eyJ|MIGH/);
  });

  test("and no rule matches a line that is skipped", () => {
    // What the rules are made of, in every spelling, and what stands beside it in a line.
    const fragments = [
      ...["authorization", "Cookie", "DPOP", "client_secret", "client_assertion", "access_token", "Token", "password"],
      ...["private_key", "artifact_object_b64", "x-svc-mtls-client-certificate", "bearer", "Basic", "dpop"],
      ...['"', '":"', '" : "', '\\"', '\\":\\"', "\\", "\\\\", ":", "=", " ", "  ", ",", "{", "}", "&", "\n"],
      ...["eyJ", "eyj", ".", "abcdef", "A1-_b2", "user", "@", "://", "/", "-----BEGIN", "-----begin"],
      ...[" PRIVATE KEY", "-----", "%20", "+", "\\n", "-", "é", "\u017f", "\u212a", "\ud800"],
    ];
    const parts = fc.array(fc.oneof(fc.constantFrom(...fragments), fc.string({ maxLength: 3 })), { maxLength: 12 });
    const shortest = [
      ...['"password":"s"', '\\"Token\\":\\"s\\"', "token=s", "Bearer s3cr3t", "eyJzM2NyM3Q", "-----BEGIN KEY-----s"],
      ...["-----BEGIN%20s", "://s@"],
    ];
    for (const line of shortest) expect(applyRules(line)).toContain("[cut]");
    fc.assert(
      fc.property(
        parts.map((all) => all.join("")),
        (line) => {
          expect(scrub(line)).toBe(applyRules(line));
        },
      ),
      { numRuns: 20_000, examples: shortest.map((line) => [line]) },
    );
  });

  test("and the rest stays", () => {
    const { logger, only } = capture();
    const fields = {
      reason: "missing_token",
      url: "https://issuer.example/realms/a",
      rpc: "ProtectionService/PlanProtection",
    };
    logger.info(fields, "basic facts: token refused");
    expect(only()).toMatchObject({ ...fields, message: "basic facts: token refused" });
  });

  test.each(["a.", "-----BEGIN A", "x://", "token=", "mtls-", "bearer ", '"token":"', "eyJ"])(
    "and every text ends: %j, many times",
    (text) => {
      const { logger, lines } = capture();
      logger.info({ text: text.repeat(50_000) }, "line");
      expect(() => JSON.parse(lines.join(""))).not.toThrow();
    },
  );
});

test("lines of one turn are written together, and at once on request", () => {
  const written: string[] = [];
  const turns: (() => void)[] = [];
  const output = { write: (text: string) => void written.push(text), flushSync: () => void written.push("flushed") };
  const stream = writeOnceATurn(output, (handOver) => turns.push(handOver));
  stream.write("a\n");
  stream.write("b\n");
  expect(written).toEqual([]);
  turns.shift()?.();
  expect(written).toEqual(["a\nb\n"]);
  stream.write("c\n");
  stream.flushSync();
  stream.write("d\n");
  stream.handOver();
  stream.handOver();
  for (const endTurn of turns) endTurn();
  expect(written).toEqual(["a\nb\n", "c\n", "flushed", "d\n"]);
});
