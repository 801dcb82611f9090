/**
 * Destination of traces: the standard's own environment variables, as its specification defines them
 * (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/,
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/). An invalid value is ignored with a warning, an empty
 * one silently. Settings that would expose credentials are refused, as everywhere.
 */
import * as v from "valibot";
import { orUndefined } from "../base/json.ts";
import { isLoopbackHost } from "../base/network.ts";
import type { Environment } from "./config.ts";
import type { Files } from "./files.ts";
import { read as parse, parsed, type Schema } from "./schema.ts";

/** The settings, if tracing is on; and the ignored values, as "NAME: …". */
export type TracingRead =
  | { readonly tracing: ReturnType<typeof settingsOf> | undefined; readonly warnings: readonly string[] }
  | { readonly problems: readonly [string, ...string[]] };

/**
 * Reads the settings. Tracing is on if an endpoint or the exporter is named: this service never connects to others
 * without configuration.
 */
export function readTracing(env: Environment, files: Pick<Files, "readText">): TracingRead {
  const read = new Variables(env);
  if (read.value("OTEL_SDK_DISABLED", word(["true", "false"], "true or false")) === "true")
    return { tracing: undefined, warnings: read.warnings };
  const exporter = read.value("OTEL_TRACES_EXPORTER", word(["otlp", "none"]));
  const endpoint = endpointOf(read);
  if (exporter === "none" || (exporter === undefined && endpoint === undefined))
    return { tracing: undefined, warnings: read.warnings };
  const tls = tlsOf(read, files);
  const tracing = settingsOf(read, endpoint ?? new URL(defaultEndpoint), tls);
  const problems = [...read.problems, ...leaks(new URL(tracing.url), tracing.headers, read)];
  const [first, ...rest] = problems;
  return first === undefined ? { tracing, warnings: read.warnings } : { problems: [first, ...rest] };
}

const defaultEndpoint = "http://localhost:4318/v1/traces";
const exporterPrefix = "OTEL_EXPORTER_OTLP_";
const samplers = [
  ...["always_on", "always_off", "traceidratio"],
  ...["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"],
] as const;
/** Most spans in the queue; each takes about 2 KiB. */
const mostSpans = 65_536;

function settingsOf(
  read: Variables,
  endpoint: URL,
  tls: { readonly ca?: string; readonly cert?: string; readonly key?: string },
) {
  read.ofExporter("PROTOCOL", (name) => read.value(name, word(["http/protobuf"])));
  const sampler = read.value("OTEL_TRACES_SAMPLER", word(samplers)) ?? "parentbased_always_on";
  const ratio = read.value("OTEL_TRACES_SAMPLER_ARG", number(0, 1));
  const maxSpans = read.value("OTEL_BSP_MAX_QUEUE_SIZE", integer(1, mostSpans)) ?? 2048;
  const serviceName = read.text("OTEL_SERVICE_NAME");
  return {
    url: endpoint.href,
    headers: { ...read.pairs(`${exporterPrefix}HEADERS`), ...read.pairs(`${exporterPrefix}TRACES_HEADERS`) },
    timeoutMs: read.ofExporter("TIMEOUT", (name) => read.value(name, integer(1, 600_000))) ?? 10_000,
    compression:
      read.ofExporter("COMPRESSION", (name) => read.value(name, word(["gzip", "none"]))) ?? ("none" as const),
    tls,
    resource: {
      ...resourceOf(read),
      ...(serviceName !== undefined && { "service.name": serviceName }),
    },
    sampler: {
      ratio: sampler.endsWith("always_on") ? 1 : sampler.endsWith("always_off") ? 0 : (ratio ?? 1),
      isParentBased: sampler.startsWith("parentbased_"),
    },
    readsContext: readsContext(read),
    queue: {
      maxSpans,
      maxBatchSpans: Math.min(maxSpans, read.value("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", integer(1, mostSpans)) ?? 512),
      delayMs: read.value("OTEL_BSP_SCHEDULE_DELAY", integer(0, 600_000)) ?? 5000,
      exportTimeoutMs: read.value("OTEL_BSP_EXPORT_TIMEOUT", integer(1, 600_000)) ?? 30_000,
    },
  };
}

/** The URL for traces. If only the URL for all signals is set, appends the path for traces to it. */
function endpointOf(read: Variables): URL | undefined {
  const own = read.value(`${exporterPrefix}TRACES_ENDPOINT`, url);
  if (own !== undefined) return own;
  const common = read.value(`${exporterPrefix}ENDPOINT`, url);
  if (common !== undefined) common.pathname += common.pathname.endsWith("/") ? "v1/traces" : "/v1/traces";
  return common;
}

function tlsOf(read: Variables, files: Pick<Files, "readText">) {
  const pem = (suffix: string) =>
    read.ofExporter(suffix, (name) => {
      const path = read.text(name);
      try {
        return path === undefined ? undefined : files.readText(path);
      } catch {
        // Without the configured authority, the exporter would trust every public one.
        read.problems.push(`${name}: cannot be read`);
        return undefined;
      }
    });
  const [ca, cert, key] = [pem("CERTIFICATE"), pem("CLIENT_CERTIFICATE"), pem("CLIENT_KEY")];
  return { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) };
}

/** If a part cannot be parsed, all of it is ignored, as the specification of the resource SDK says. */
function resourceOf(read: Variables): Readonly<Record<string, string>> {
  const name = "OTEL_RESOURCE_ATTRIBUTES";
  const known = read.warnings.length;
  const attributes = read.pairs(name);
  return read.warnings.length > known ? {} : attributes;
}

/** Trace context is read unless the propagators omit it. Baggage never is. */
function readsContext(read: Variables): boolean {
  const name = "OTEL_PROPAGATORS";
  const names = read
    .text(name)
    ?.split(",")
    .map((item) => item.trim());
  if (names === undefined) return true;
  if (names.some((item) => !["tracecontext", "baggage", "none"].includes(item)))
    read.warnings.push(`${name}: of these, tracecontext alone is supported`);
  return names.includes("tracecontext");
}

function leaks(url: URL, headers: Readonly<Record<string, string>>, { warnings }: Variables): readonly string[] {
  if (url.protocol === "https:" || isLoopbackHost(url.hostname)) return [];
  const name = `${exporterPrefix}ENDPOINT`;
  if (Object.keys(headers).length > 0 || url.username !== "" || url.password !== "")
    return [`${name}: would send credentials over plain http off loopback: it must use https`];
  warnings.push(`${name}: traces go over plain http off loopback, where others may read them`);
  return [];
}

/** The variables and their problems. Nothing repeats a value. */
class Variables {
  readonly warnings: string[] = [];
  readonly problems: string[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  /** Undefined if it is absent or empty. */
  text(name: string): string | undefined {
    const value = this.#env[name]?.trim();
    return value === "" ? undefined : value;
  }

  /** A variable for the exporter of traces, or else the one for all exporters. */
  ofExporter<T>(suffix: string, look: (name: string) => T | undefined): T | undefined {
    return look(`${exporterPrefix}TRACES_${suffix}`) ?? look(exporterPrefix + suffix);
  }

  /** Undefined, after a warning, if it is invalid. */
  value<T>(name: string, schema: Schema<T>): T | undefined {
    const text = this.text(name);
    const result = text === undefined ? undefined : parse(schema, text);
    if (result === undefined) return undefined;
    if ("value" in result) return result.value;
    this.warnings.push(`${name}: ${result.problem}; it is ignored`);
    return undefined;
  }

  /** Comma-separated `key=value` pairs, the values percent-encoded (W3C Baggage §3.2.1). Invalid ones are omitted. */
  pairs(name: string): Record<string, string> {
    const pairs: Record<string, string> = {};
    for (const item of this.text(name)?.split(",") ?? []) {
      const [, key, value = ""] =
        /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,255})\s*=\s*([\x21-\x7e\s]*?)\s*$/.exec(item) ?? [];
      const decoded = key === undefined ? undefined : decode(value);
      if (key === undefined || decoded === undefined)
        this.warnings.push(`${name}: must be comma-separated key=value pairs; it is ignored`);
      else pairs[key] = decoded;
    }
    return pairs;
  }
}

/** Undefined if it is not percent-encoded, or contains characters that no header may have. */
function decode(value: string): string | undefined {
  const text = orUndefined(() => decodeURIComponent(value));
  return text !== undefined && /^[\x20-\x7e\u0080-\u{10ffff}]*$/u.test(text) ? text : undefined;
}

function word<const Word extends string>(words: readonly Word[], rule = words.join(", ")) {
  return v.pipe(v.string(), v.toLowerCase(), v.picklist(words, `must be ${rule}`));
}

function number(least: number, most: number) {
  const isWithin = (value: number) => value >= least && value <= most;
  return v.pipe(v.string(), v.transform(Number), v.check(isWithin, `must be a number from ${least} to ${most}`));
}

function integer(least: number, most: number) {
  const isWithin = (value: number) => Number.isInteger(value) && value >= least && value <= most;
  return v.pipe(v.string(), v.transform(Number), v.check(isWithin, `must be a whole number from ${least} to ${most}`));
}

const url = v.pipe(
  v.string(),
  parsed((text) => {
    const found = URL.parse(text);
    return found !== null && /^https?:$/.test(found.protocol) ? found : undefined;
  }, "must be a URL of http or https"),
);
