/** One connection of the fuzzer. A seed and a number determine its kind, what it sends, and when it leaves. */
import net from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import tls from "node:tls";
import { http1Request } from "./http1.ts";
import { http2Frames } from "./http2.ts";
import { mutated, type Random, randomOf } from "./random.ts";
import { operatorTargets, serviceTargets, type Target } from "./targets.ts";

export interface FuzzOptions {
  readonly seed: number;
  /** Ports of two deployments, since a port speaks either plaintext or TLS. */
  readonly ports: Readonly<Record<"service" | "operator" | "tlsService" | "tlsOperator", number>>;
  /** A good `Authorization`, which few requests carry: those that do write records. */
  readonly authorization: string;
}

export type FuzzCounts = ReturnType<typeof noCounts>;

/** Counts of what was sent. A silent connection is reset before it has sent anything that a protocol could answer. */
export function noCounts() {
  return { connections: 0, http1: 0, h2c: 0, tls: 0, silent: 0, requests: 0, frames: 0, bytes: 0 };
}

/** One in so many connections is followed by a silent one. */
const silentOneIn = 8;

/** Runs the connection of this number to its end. Never rejects: how the connection ends is no finding by itself. */
export async function fuzzConnection(number: number, options: FuzzOptions, counts: FuzzCounts): Promise<void> {
  await talkingConnection(number, options, counts);
  // With its own random numbers, so that a seed reproduces its findings.
  if (number % silentOneIn === 0) await silentConnection(randomOf(~options.seed, number), options, counts);
}

/** Connects, to a port of either kind, and is reset before a byte, or amid a TLS handshake. */
async function silentConnection(random: Random, { ports }: FuzzOptions, counts: FuzzCounts): Promise<void> {
  const port = random.pick(Object.values(ports));
  const socket = net.connect({ host: "127.0.0.1", port, localAddress: localAddress(random) }).on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  counts.connections += 1;
  counts.silent += 1;
  await Promise.race([closed, new Promise<void>((resolve) => socket.once("connect", resolve))]);
  // Type and version of a record, and a length that is never reached (RFC 8446 §5.1).
  if (random.chance(0.3)) socket.write(Buffer.from([22, 3, 1, 1, 0, 1]).subarray(0, 1 + random.below(6)));
  if (random.chance(0.7)) await Promise.race([closed, delay(random.below(8))]);
  socket.resetAndDestroy();
  await closed;
}

const localAddress = (random: Random) => `127.0.0.${2 + random.below(250)}`;

async function talkingConnection(number: number, options: FuzzOptions, counts: FuzzCounts): Promise<void> {
  const random = randomOf(options.seed, number);
  const overTls = random.chance(0.3);
  const onOperator = random.chance(0.15);
  const isHttp2 = !onOperator && random.chance(0.55);
  const pieces = isHttp2
    ? framesOf(serviceTargets, options.authorization, random, counts)
    : requestsOf(onOperator ? operatorTargets : serviceTargets, options.authorization, random, counts);
  counts.connections += 1;
  counts[overTls ? "tls" : isHttp2 ? "h2c" : "http1"] += 1;
  const { socket, raw } = connect(overTls, onOperator, isHttp2, options, random);
  socket.on("error", () => {});
  // The TLS socket does not always close with the socket below it.
  raw.once("close", () => socket.destroy());
  // Nor does the socket below always close with it.
  const closed = new Promise<boolean>((resolve) => {
    for (const end of [raw, socket]) end.once("close", () => resolve(true));
  });
  const opened = new Promise<boolean>((resolve) =>
    socket.once(socket === raw ? "connect" : "secureConnect", () => resolve(true)),
  );
  if (random.chance(0.01)) await Promise.race([opened, closed, delay(random.below(5))]);
  else await Promise.race([opened, closed]);
  const takes = random.chance(0.85);
  if (takes) socket.resume();
  for (const piece of pieces) {
    if (socket.destroyed || !socket.writable) break;
    counts.bytes += piece.length;
    socket.write(piece);
    if (random.chance(0.1)) await Promise.race([closed, takes ? answered(socket) : delay(1)]);
  }
  await leave(socket, raw, closed, random);
}

function connect(overTls: boolean, onOperator: boolean, isHttp2: boolean, { ports }: FuzzOptions, random: Random) {
  const [plain, secured] = onOperator ? [ports.operator, ports.tlsOperator] : [ports.service, ports.tlsService];
  const raw = net.connect({
    host: "127.0.0.1",
    port: overTls ? secured : plain,
    // Many addresses: one alone runs out of ports, which wait a minute after their connection.
    localAddress: localAddress(random),
    noDelay: true,
  });
  raw.on("error", () => {});
  // Now and then a client sends plaintext to the port with TLS.
  if (!overTls || random.chance(0.1)) return { socket: raw, raw };
  const ALPNProtocols = [isHttp2 ? "h2" : "http/1.1"];
  return { socket: tls.connect({ socket: raw, rejectUnauthorized: false, ALPNProtocols }), raw };
}

function framesOf(targets: readonly Target[], authorization: string, random: Random, counts: FuzzCounts): Buffer[] {
  const frames = [...http2Frames(1 + random.below(60), targets, authorization, random)];
  counts.frames += frames.length;
  return inPieces(frames, random);
}

function requestsOf(targets: readonly Target[], authorization: string, random: Random, counts: FuzzCounts): Buffer[] {
  const number = 1 + random.below(random.chance(0.02) ? 300 : 12);
  const requests = Array.from({ length: number }, () => http1Request(targets, authorization, random));
  counts.requests += number;
  if (random.chance(0.01)) requests.unshift(mutated(Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), random));
  return inPieces(requests, random);
}

/** Together, or one by one, or cut anywhere. */
function inPieces(parts: readonly Buffer[], random: Random): Buffer[] {
  const way = random.below(10);
  if (way === 0) return [...parts];
  const whole = Buffer.concat(parts);
  if (way > 2) return [whole];
  const cut = random.below(whole.length);
  return [whole.subarray(0, cut), whole.subarray(cut)];
}

/** Resolves with the next bytes, or after some milliseconds without. */
function answered(socket: net.Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      socket.off("data", done);
      resolve();
    };
    const timer = setTimeout(done, 10);
    socket.once("data", done);
  });
}

/** Enough time for a connection to close. */
const maxClosingMs = 2_000;

/** Leaves at any moment: at once, in the middle of the answers, or late, with a reset or in good order. */
async function leave(socket: net.Socket, raw: net.Socket, closed: Promise<boolean>, random: Random): Promise<void> {
  const way = random.below(20);
  if (way < 6) await Promise.race([closed, answered(socket)]);
  else if (way < 12) await Promise.race([closed, delay(random.below(8))]);
  else if (way === 19) await Promise.race([closed, delay(random.below(1_500))]);
  if (random.chance(0.15)) {
    socket.end();
    await Promise.race([closed, delay(random.below(20))]);
  }
  // Node cannot reset what is below TLS.
  if (socket === raw && random.chance(0.8)) socket.resetAndDestroy();
  else socket.destroy();
  raw.destroy();
  // A socket whose handle TLS has taken does not always say that it is closed.
  await Promise.race([closed, delay(maxClosingMs)]);
}
