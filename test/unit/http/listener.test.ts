/** A listener that drains while its machine is held up: callers that are held up with it lose no call. */
import { expect, test } from "vitest";
import { h1Connect, h1Request } from "../../harness/h1.ts";
import { plainListener } from "../../harness/plain-listener.ts";

/** In milliseconds: longer than a caller has for its last call. */
const stallMs = 400;

/** Nothing in this process runs meanwhile, as on a machine that is busy with something else. */
function stall(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stallMs);
}

const listenerOf = () => plainListener((_request, response) => void response.end("{}"));

/** As many turns as a listener takes to look around several times. */
async function severalLooks(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setTimeout(resolve, 20));
}

test("a call on a kept connection is answered although the listener was blocked with its caller", async () => {
  const listener = listenerOf();
  const { port } = await listener.listen("127.0.0.1", 0);
  const request = h1Request("GET /", []);
  const connections = await Promise.all(Array.from({ length: 8 }, () => h1Connect(`http://127.0.0.1:${port}`)));
  for (const connection of connections) connection.write(request);
  for (const connection of connections) expect((await connection.next())?.headers.get("connection")).toBe("keep-alive");
  const closed = listener.close(10_000);
  stall();
  await severalLooks();
  for (const connection of connections) connection.write(request);
  for (const connection of connections) expect((await connection.next())?.headers.get("connection")).toBe("close");
  expect(await closed).toBe(true);
});

test("a first call that arrived unread before the end is answered", async () => {
  const listener = listenerOf();
  const { port } = await listener.listen("127.0.0.1", 0);
  const [used, fresh] = await Promise.all([
    h1Connect(`http://127.0.0.1:${port}`),
    h1Connect(`http://127.0.0.1:${port}`),
  ]);
  // The listener has accepted both when it has answered on one of them.
  used.write(h1Request("GET /", []));
  await used.next();
  fresh.write(h1Request("GET /", []));
  const closed = listener.close(10_000);
  stall();
  expect((await fresh.next())?.status).toBe(200);
  expect(await closed).toBe(true);
});
