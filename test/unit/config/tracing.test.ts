/** The standard's variables for traces, as the standard reads them. */
import { expect, test } from "vitest";
import { readTracing } from "../../../src/config/tracing.ts";

const files = {
  readText(path: string): string {
    if (path === "/ca.pem") return "PEM";
    throw new Error("ENOENT");
  },
};
const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };
const read = (env: Record<string, string>) => readTracing(env, files);
const on = (env: Record<string, string>) => {
  const result = read({ ...endpoint, ...env });
  if ("problems" in result || result.tracing === undefined) throw new Error("no traces");
  return { ...result.tracing, warnings: result.warnings };
};

test.each([
  ["nothing is said", {}],
  ["all is empty", { OTEL_TRACES_EXPORTER: "", OTEL_EXPORTER_OTLP_ENDPOINT: " " }],
  ["the exporter is none", { ...endpoint, OTEL_TRACES_EXPORTER: "none" }],
  ["the SDK is disabled", { ...endpoint, OTEL_SDK_DISABLED: "TRUE" }],
  ["only what does not ask for traces is said", { OTEL_SERVICE_NAME: "x", OTEL_TRACES_SAMPLER: "always_on" }],
])("if %s, nothing is traced", (_what, env) => {
  expect(read(env)).toEqual({ tracing: undefined, warnings: [] });
});

test("the exporter alone turns tracing on, to the standard's own endpoint", () => {
  expect(read({ OTEL_TRACES_EXPORTER: "otlp" })).toMatchObject({
    tracing: {
      url: "http://localhost:4318/v1/traces",
      sampler: { ratio: 1, isParentBased: true },
      queue: { maxSpans: 2048, maxBatchSpans: 512, delayMs: 5000, exportTimeoutMs: 30_000 },
      timeoutMs: 10_000,
      readsContext: true,
    },
    warnings: [],
  });
});

test.each([
  [{}, "http://localhost:4318/v1/traces"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example/otlp/" }, "https://collector.example/otlp/v1/traces"],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://collector.example/mine" }, "https://collector.example/mine"],
])("%j goes to %s", (env, url) => {
  expect(on(env).url).toBe(url);
});

test.each([
  [{ OTEL_TRACES_SAMPLER: "always_off" }, { ratio: 0, isParentBased: false }],
  [
    { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" },
    { ratio: 0.25, isParentBased: false },
  ],
  [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, { ratio: 0, isParentBased: true }],
  [{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio" }, { ratio: 1, isParentBased: true }],
])("%j samples %j", (env, sampler) => {
  expect(on(env)).toMatchObject({ sampler, warnings: [] });
});

test.each([
  ["OTEL_TRACES_SAMPLER", "sometimes", { sampler: { ratio: 1, isParentBased: true } }],
  ["OTEL_TRACES_SAMPLER_ARG", "1.5", { sampler: { ratio: 1 } }],
  ["OTEL_TRACES_EXPORTER", "zipkin", {}],
  ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", {}],
  ["OTEL_EXPORTER_OTLP_COMPRESSION", "brotli", { compression: "none" }],
  ["OTEL_EXPORTER_OTLP_TIMEOUT", "-1", { timeoutMs: 10_000 }],
  ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://secret.example", { url: "http://localhost:4318/v1/traces" }],
  ["OTEL_EXPORTER_OTLP_HEADERS", "no pair at all", { headers: {} }],
  ["OTEL_EXPORTER_OTLP_HEADERS", "x=line%0d%0abreak", { headers: {} }],
  ["OTEL_BSP_MAX_QUEUE_SIZE", "1e9", { queue: { maxSpans: 2048 } }],
  ["OTEL_BSP_SCHEDULE_DELAY", "soon", { queue: { delayMs: 5000 } }],
  ["OTEL_RESOURCE_ATTRIBUTES", "team=a,broken", { resource: {} }],
  ["OTEL_RESOURCE_ATTRIBUTES", "team=%zz", { resource: {} }],
  ["OTEL_PROPAGATORS", "b3,tracecontext", { readsContext: true }],
  ["OTEL_SDK_DISABLED", "1", {}],
])("an invalid value is ignored, with a warning that does not repeat it: %s=%s", (name, value, expected) => {
  const { warnings, ...settings } = on({ [name]: value });
  expect(settings).toMatchObject(expected);
  expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${name}: `))]);
  expect(warnings[0]).not.toContain(value);
});

test("headers for traces override those for all signals", () => {
  const env = {
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20a,x-team=one",
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x-team=two",
  };
  expect(on(env)).toMatchObject({ headers: { authorization: "Bearer a", "x-team": "two" }, warnings: [] });
});

test("the service's own name overrides the one in the attributes", () => {
  const env = { OTEL_RESOURCE_ATTRIBUTES: "service.name=one,team=a%2Cb", OTEL_SERVICE_NAME: "two" };
  expect(on(env).resource).toEqual({ "service.name": "two", team: "a,b" });
});

test.each([
  ["headers over plain http", { OTEL_EXPORTER_OTLP_HEADERS: "authorization=a" }],
  ["a password over plain http", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://user:pass@collector.example" }],
])("%s off loopback refuse to start", (_what, env) => {
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.example:4318", ...env })).toEqual({
    problems: ["OTEL_EXPORTER_OTLP_ENDPOINT: would send credentials over plain http off loopback: it must use https"],
  });
});

test("spans over plain http off loopback cause a warning", () => {
  const { warnings } = on({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.example:4318" });
  expect(warnings).toEqual([expect.stringContaining("plain http off loopback")]);
});

test("a certificate that cannot be read refuses to start instead of trusting others", () => {
  expect(read({ ...endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE: "/gone.pem" })).toEqual({
    problems: ["OTEL_EXPORTER_OTLP_CERTIFICATE: cannot be read"],
  });
  expect(on({ OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: "/ca.pem" }).tls).toEqual({ ca: "PEM" });
});
