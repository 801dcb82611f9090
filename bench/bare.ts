/**
 * The upper bound: fastify alone, over HTTP/1.1 and over HTTP/2, reading the same requests and sending answers of the
 * same size without any work. `node bench/bare.ts <file>`: the file has the answers by path.
 */
import { readFileSync } from "node:fs";
import fastify, { type FastifyInstance } from "fastify";

const [, , file = ""] = process.argv;
const answers = JSON.parse(readFileSync(file, "utf8")) as Record<
  string,
  { method: string; json?: unknown; frame?: string }
>;

const http1 = fastify();
const http2 = fastify({ http2: true }) as unknown as FastifyInstance;
http2.addContentTypeParser("application/grpc", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

for (const [url, { method, json, frame }] of Object.entries(answers)) {
  if (json !== undefined) http1.route({ method, url, handler: (_request, reply) => void reply.send(json) });
  if (frame === undefined) continue;
  const bytes = Buffer.from(frame, "base64");
  http2.route({
    method,
    url,
    handler: (_request, reply) => void reply.header("content-type", "application/grpc").send(bytes),
  });
}

const listening = {
  message: "listening",
  url: await http1.listen({ host: "127.0.0.1", port: 0 }),
  http2_url: await http2.listen({ host: "127.0.0.1", port: 0 }),
};
process.stdout.write(`${JSON.stringify(listening)}\n`);
