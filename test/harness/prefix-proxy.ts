/** An ingress that serves a service under a path prefix, as many do: it strips the prefix and changes nothing else. */
import { createServer, request } from "node:http";
import { listenOnLoopback } from "./loopback.ts";

/** Starts it on a free loopback port. `url` is the base URL of the service behind it, without a slash at the end. */
export async function startPrefixProxy(
  target: string,
  prefix: string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url === undefined || !incoming.url.startsWith(`${prefix}/`)) {
      outgoing.writeHead(404).end();
      return;
    }
    const { method, headers } = incoming;
    const onward = request(new URL(incoming.url.slice(prefix.length), target), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  const { port, stop } = await listenOnLoopback(server);
  return { url: `http://127.0.0.1:${port}${prefix}`, stop };
}
