/** Requests of HTTP/1.1 as bytes, most of them nearly right. */
import { mutated, type Random } from "./random.ts";
import { methods, oddHeaders, type Target, usuallyAuthorized } from "./targets.ts";

const versions = ["1.0", "2.0", "0.9", "1.2", "3.0", "11", "1.1.1", ""];
const ends = ["\n", "\r", "\r\r\n", " \r\n"];

/** One request. */
export function http1Request(targets: readonly Target[], authorization: string, random: Random): Buffer {
  const target = random.pick(targets);
  const method = random.chance(0.15) ? random.pick(methods) : target.method;
  const version = random.chance(0.1) ? random.pick(versions) : "1.1";
  const path = random.chance(0.02) ? `http://localhost${target.path}` : target.path;
  const headers: [string, string][] = random.chance(0.97) ? [["host", "localhost"]] : [];
  if (random.chance(target.authorized ?? usuallyAuthorized)) headers.push(["authorization", authorization]);
  if (random.chance(0.3)) headers.push(...oddHeaders(random));
  const type = target.types.length > 0 ? random.pick(target.types) : "application/json";
  if (method !== "GET" || random.chance(0.05)) headers.push(["content-type", type]);
  const body = target.bodies.length > 0 && random.chance(0.95) ? random.pick(target.bodies) : Buffer.alloc(0);
  const sent = bodyAsSent(random.chance(0.2) ? mutated(body, random) : body, headers, random);
  const end = random.chance(0.02) ? random.pick(ends) : "\r\n";
  const head = [
    `${method} ${path}${version === "" ? "" : ` HTTP/${version}`}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  const bytes = Buffer.concat([Buffer.from(`${head.join(end)}${end}${end}`, "latin1"), sent]);
  return random.chance(0.15) ? mutated(bytes, random) : bytes;
}

/** The body with its length said, in chunks, or neither; now and then wrongly. */
function bodyAsSent(body: Buffer, headers: [string, string][], random: Random): Buffer {
  if (body.length === 0 && random.chance(0.7)) return body;
  if (random.chance(0.7)) {
    const lie = random.chance(0.05) ? random.below(20) - 10 : 0;
    headers.push(["content-length", String(body.length + lie)]);
    if (random.chance(0.02)) headers.push(["content-length", String(body.length)]);
    return body;
  }
  if (random.chance(0.9))
    headers.push([
      "transfer-encoding",
      random.chance(0.9) ? "chunked" : random.pick(["x", "chunked, x", "gzip, chunked"]),
    ]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, 1 + random.below(64));
    const said = random.chance(0.01) ? random.pick(["", "-1", "fffffffff", "0x2", "g"]) : size.toString(16);
    const extension = random.chance(0.05) ? `;a=${random.below(100)}` : "";
    pieces.push(Buffer.from(`${said}${extension}\r\n`), body.subarray(at, at + size), Buffer.from("\r\n"));
    at += size;
  }
  const trailer = random.chance(0.05) ? "x: y\r\n" : "";
  if (random.chance(0.95)) pieces.push(Buffer.from(`0\r\n${trailer}\r\n`));
  return Buffer.concat(pieces);
}
