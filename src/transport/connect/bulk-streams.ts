/** Streams of authenticated callers. They pass the gate, and their memory is bounded and counted like that of bodies. */
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { AdapterOptions } from "../calls/exchange.ts";
import type { Gate } from "../calls/gate.ts";
import { Inlet, kInlet, kStillAllowed, kStopping } from "../calls/inlet.ts";
import { binaryOptions } from "../codec/binary-records.ts";
import { readCallOptions } from "../gate/checks.ts";
import { type StreamLimits, streamLimiter } from "./stream-limits.ts";
import type { StreamsOptions } from "./streams.ts";

/** An agent needs one per channel; a shared address has many agents. */
const streamLimits: StreamLimits = { perConnection: 16, perAddress: 256, perNeighbourhood: 512, inAll: 1024 };
/** Bytes that are read and not settled; each stream reserves these and one more message. */
const windowBytes = 256 * 1024;
const maxItems = 256;

/** Refuses unknown members, and text that is not UTF-8. Connect reads `textDecoder`, though its types lack it. */
const strictJson = {
  ignoreUnknownFields: false,
  textDecoder: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
};

export interface BulkStreamsOptions extends Pick<AdapterOptions, "service" | "gate" | "limits" | "bodies"> {
  readonly headerPrefix: string;
  /** Passed again whenever a message arrives on a stream. */
  readonly gateStill: Gate;
  readonly stopping: AbortSignal;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

export function bulkStreams(options: BulkStreamsOptions): StreamsOptions {
  const { service, gate, gateStill, limits, bodies, stopping, headerPrefix, addressOf } = options;
  const readOptions = readCallOptions(headerPrefix);
  const enter = streamLimiter(streamLimits, addressOf);
  return {
    service,
    handlerOptions: { binaryOptions, jsonOptions: strictJson },
    maxMessageBytes: limits.maxBodyBytes,
    acceptsCompression: false,
    async open({ request, call, rpc, values, body, signal, onEnd }) {
      const { inbound } = request;
      await gate({ call, inbound, rpc, signal });
      // A stream mostly waits for its caller, and takes a turn for each message.
      call.ticket?.park();
      readOptions(call);
      onEnd(enter(request));
      const lease = bodies.lease(call, inbound);
      lease.holds(windowBytes + limits.maxBodyBytes(rpc));
      onEnd(lease.release);
      const inlet = new Inlet<unknown>({ maxItems, maxBytes: windowBytes });
      values.set(kInlet, inlet).set(kStopping, stopping);
      values.set(kStillAllowed, () => gateStill({ call, inbound, rpc, signal }));
      return inlet.body(body);
    },
  };
}
