/**
 * A receiver of traces, OTLP/HTTP with protobuf: what is sent is decoded with the descriptors that the OpenTelemetry
 * project publishes, and held to what a collector would refuse.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { createFileRegistry, fromBinary, toJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { systemFiles } from "../../src/config/load.ts";
import { readTracing } from "../../src/config/tracing.ts";
import { listenOnLoopback } from "./loopback.ts";

/** Made of the package `opentelemetry-proto` 1.45.2 for Python. */
export const otlpDescriptors = new URL("../fixtures/otlp-trace.binpb", import.meta.url).pathname;

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(otlpDescriptors)));
const request = registry.getMessage("opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest");

export interface ReceivedSpan {
  readonly name: string;
  readonly kind: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: string; readonly message: string };
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface OtlpReceiver {
  /** Base URL, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it. */
  readonly url: string;
  /** Every span so far. */
  readonly spans: readonly ReceivedSpan[];
  /** Headers of every request so far. */
  readonly requests: readonly IncomingHttpHeaders[];
  /** The bytes of every request so far, uncompressed, as text of one character a byte. */
  readonly bytes: readonly string[];
  /** What answers from now on, in place of 200; undefined: as before. */
  answer: ((response: ServerResponse) => void) | undefined;
  stop(): Promise<void>;
}

/** Options of a gateway that exports its traces as these variables say. Spans leave as soon as they may. */
export function tracedBy(env: Readonly<Record<string, string>>) {
  const read = readTracing({ OTEL_BSP_SCHEDULE_DELAY: "1", ...env }, systemFiles);
  if ("problems" in read || read.tracing === undefined) throw new Error("these variables ask for no traces");
  return { overrides: { tracing: read.tracing } };
}

/** Starts it on loopback. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const requests: IncomingHttpHeaders[] = [];
  const bytes: string[] = [];
  const server = createServer((incoming, response) => {
    void take(incoming, response).catch(() => response.writeHead(400).end());
  });
  const take = async (incoming: IncomingMessage, response: ServerResponse) => {
    const sent = await buffer(incoming);
    requests.push(incoming.headers);
    if (receiver.answer !== undefined) return receiver.answer(response);
    if (incoming.url !== "/v1/traces" || incoming.headers["content-type"] !== "application/x-protobuf")
      return void response.writeHead(404).end();
    const body = incoming.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
    bytes.push(body.toString("latin1"));
    spans.push(...spansOf(body));
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  };
  const { port, stop } = await listenOnLoopback(server);
  const receiver: OtlpReceiver = {
    url: `http://127.0.0.1:${port}`,
    spans,
    requests,
    bytes,
    answer: undefined,
    stop,
  };
  return receiver;
}

/** The published descriptors name members as the schema does alone. */
const options = { alwaysEmitImplicit: true, useProtoFieldName: true };

// biome-ignore lint/suspicious/noExplicitAny: the descriptors say what is there, and a test fails where it is not.
type Any = any;

function spansOf(body: Uint8Array): ReceivedSpan[] {
  if (request === undefined) throw new Error("no descriptor");
  const json: Any = toJson(request, fromBinary(request, body), options);
  return json.resource_spans.flatMap(({ resource, scope_spans: scopeSpans }: Any) =>
    scopeSpans.flatMap(({ spans }: Any) => spans.map((span: Any) => received(span, attributesOf(resource.attributes)))),
  );
}

function received(span: Any, resource: ReceivedSpan["resource"]): ReceivedSpan {
  const { name, kind, attributes, links, status = { code: "STATUS_CODE_UNSET", message: "" } } = span;
  return {
    ...{ name, kind, status, resource },
    traceState: span.trace_state,
    traceId: hex(span.trace_id),
    spanId: hex(span.span_id),
    parentSpanId: hex(span.parent_span_id),
    startNs: BigInt(span.start_time_unix_nano),
    endNs: BigInt(span.end_time_unix_nano),
    attributes: attributesOf(attributes),
    links: links.map(({ trace_id, span_id }: Any) => ({ traceId: hex(trace_id), spanId: hex(span_id) })),
  };
}

function hex(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

function attributesOf(pairs: readonly Any[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    pairs.map(({ key, value }) => {
      const [[kind, content] = ["", undefined]] = Object.entries<unknown>(value);
      return [key, kind === "int_value" ? Number(content) : content];
    }),
  );
}
