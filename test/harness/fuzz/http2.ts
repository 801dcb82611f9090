/** Frames of HTTP/2, of every type, most of them nearly right. */
import { h2Field, h2Frame, h2Preface } from "../h2-frames.ts";
import { mutated, type Random } from "./random.ts";
import { methods, oddHeaders, type Target, usuallyAuthorized } from "./targets.ts";

const [data, headers, priority, reset, settings, pushPromise, ping, goaway, windowUpdate, continuation] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
];
const endStream = 0x1;
const endHeaders = 0x4;

/** The frames of one connection: its preface, and what follows. */
export function* http2Frames(
  count: number,
  targets: readonly Target[],
  authorization: string,
  random: Random,
): Generator<Buffer> {
  yield random.chance(0.01) ? mutated(h2Preface, random) : h2Preface;
  yield firstSettings(random);
  let streamId = 1;
  for (let left = count; left > 0; ) {
    const frames = random.chance(0.35)
      ? requestFrames(streamId, targets, authorization, random)
      : [anyFrame(streamId, random)];
    streamId += 2;
    for (const frame of frames) yield random.chance(0.04) ? mutated(frame, random) : frame;
    left -= frames.length;
  }
}

function setting(id: number, value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUInt16BE(id);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

function firstSettings(random: Random): Buffer {
  const all = [];
  // SETTINGS_INITIAL_WINDOW_SIZE: without one no body of an answer can leave.
  if (random.chance(0.2)) all.push(setting(4, random.pick([0, 1, 100])));
  if (random.chance(0.1)) all.push(setting(1, random.pick([0, 1, 65_536])));
  if (random.chance(0.1)) all.push(setting(3, random.below(10)));
  if (random.chance(0.05)) all.push(setting(5, random.pick([16_384, 16_777_215, 1])));
  if (random.chance(0.05)) all.push(setting(random.below(16), random.below(2 ** 32)));
  return h2Frame(settings, 0, 0, Buffer.concat(all));
}

/** A request: its headers, maybe continued, its body in pieces, maybe trailers, maybe a reset before its end. */
function requestFrames(streamId: number, targets: readonly Target[], authorization: string, random: Random): Buffer[] {
  const target = random.pick(targets);
  const hasBody = target.bodies.length > 0 && random.chance(0.95);
  const block = headerBlock(target, authorization, random);
  const frames: Buffer[] = [];
  const flags = hasBody || random.chance(0.02) ? 0 : endStream;
  if (random.chance(0.05)) {
    const cut = random.below(block.length);
    frames.push(h2Frame(headers, flags, streamId, block.subarray(0, cut)));
    if (random.chance(0.97)) frames.push(h2Frame(continuation, endHeaders, streamId, block.subarray(cut)));
  } else {
    frames.push(h2Frame(headers, flags | endHeaders, streamId, block));
  }
  if (hasBody) {
    const body = random.pick(target.bodies);
    const sent = random.chance(0.2) ? mutated(body, random) : body;
    const cut = random.chance(0.2) ? random.below(sent.length + 1) : sent.length;
    if (cut < sent.length) frames.push(h2Frame(data, 0, streamId, sent.subarray(0, cut)));
    if (random.chance(0.95))
      frames.push(
        h2Frame(data, random.chance(0.97) ? endStream : 0, streamId, cut < sent.length ? sent.subarray(cut) : sent),
      );
    else if (random.chance(0.5))
      frames.push(h2Frame(headers, random.pick([0, endHeaders]) | endStream, streamId, h2Field("x-trailer", "a")));
  }
  if (random.chance(0.08)) frames.push(h2Frame(reset, 0, streamId, random.bytes(4)));
  if (random.chance(0.05))
    frames.push(h2Frame(windowUpdate, 0, streamId, Buffer.from([0, 0, 0, 1 + random.below(255)])));
  return frames;
}

function headerBlock(target: Target, authorization: string, random: Random): Buffer {
  const method = random.chance(0.1) ? random.pick(methods) : target.method;
  const fields: [string, string][] = [
    [":method", method],
    [":scheme", "http"],
    [":path", target.path],
    [":authority", "localhost"],
  ];
  if (target.types.length > 0) fields.push(["content-type", random.pick(target.types)], ["te", "trailers"]);
  if (random.chance(target.authorized ?? usuallyAuthorized)) fields.push(["authorization", authorization]);
  if (random.chance(0.3)) fields.push(...oddHeaders(random));
  if (random.chance(0.03)) fields.push(["content-length", String(random.below(1000))]);
  if (random.chance(0.03)) fields.splice(random.below(4), 1);
  if (random.chance(0.02))
    fields.push(
      random.pick([
        [":protocol", "websocket"],
        [":status", "200"],
        ["X-Upper", "a"],
        [":path", "/b"],
        ["", ""],
      ]),
    );
  return Buffer.concat(fields.map(([name, value]) => h2Field(name, value)));
}

/** A frame of any type, for any stream, with a payload that fits its type or does not. */
function anyFrame(newest: number, random: Random): Buffer {
  const streamId = random.pick([
    0,
    1,
    newest,
    Math.max(1, newest - 2),
    newest + random.below(10),
    random.below(2 ** 31),
  ]);
  const odd = random.chance(0.1);
  const payload = (fit: Buffer) => (odd ? random.bytes(random.below(40)) : fit);
  switch (random.below(14)) {
    case 0:
      return h2Frame(data, random.below(256) & 0x9, streamId, random.bytes(random.below(64)));
    case 1:
      return h2Frame(reset, 0, streamId, payload(random.bytes(4)));
    case 2:
      return h2Frame(
        settings,
        odd ? random.below(2) : 0,
        odd ? streamId : 0,
        payload(setting(random.below(8), random.below(70_000))),
      );
    case 3:
      return h2Frame(pushPromise, random.below(256), streamId, random.bytes(random.below(32)));
    case 4:
      // A peer may close without a GOAWAY (RFC 9113 §7).
      return h2Frame(goaway, 0, odd ? streamId : 0, payload(Buffer.from([0, 0, 0, 0, 0, 0, 0, random.below(14)])));
    case 5:
      return h2Frame(continuation, random.below(256), streamId, random.bytes(random.below(32)));
    case 6:
      return h2Frame(10 + random.below(246), random.below(256), streamId, random.bytes(random.below(32)));
    case 7:
    case 8:
      return h2Frame(windowUpdate, 0, odd ? streamId : 0, payload(Buffer.from([0, 0, random.below(256), 1])));
    case 9:
    case 10:
    case 11:
      return h2Frame(ping, random.below(2), 0, payload(Buffer.alloc(8)));
    default:
      return h2Frame(priority, 0, streamId === 0 && !odd ? 1 : streamId, payload(Buffer.from([0, 0, 0, 0, 16])));
  }
}
