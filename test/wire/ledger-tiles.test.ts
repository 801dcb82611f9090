/** The tile API of the operator listener, read as C2SP tlog-tiles clients read it. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import type { GivenReceipt } from "../../src/ledger/record/receipt.ts";
import { openCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { leafHash } from "../../src/ledger/tlog/tree.ts";
import { gatewayForFile, rest, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();
const receipts: GivenReceipt[] = [];
const body = sampleCalls().find(({ route }) => route.endsWith("/evidence"))?.body;
for (let count = 0; count < 5; count++)
  receipts.push((await rest(`${gateway.url}/v1/sdk/evidence`, { token, body })).body.ingestion.receipt);
type Log = { name: string; origin: string; size: number; verifier_keys: string[] };
const [log] = ((await (await fetch(`${gateway.opsUrl}/ledger`)).json()) as { logs: [Log] }).logs;

const get = (path: string) => fetch(`${gateway.opsUrl}/ledger/${path}`);
const bytesOf = async (path: string) => Buffer.from(await (await get(path)).arrayBuffer());

test("the list names the log as receipts do", () => {
  expect(log).toMatchObject({ origin: receipts[0]?.log_origin, size: 6 });
  expect(log.origin.endsWith(`/${log.name}`)).toBe(true);
});

test("the checkpoint is signed by the published key, and covers the answered records", async () => {
  const response = await get(`${log.name}/checkpoint`);
  expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(response.headers.get("cache-control")).toBe("no-store");
  const verifier = parseVerifierKey(log.verifier_keys[0] ?? "");
  if (verifier === undefined) throw new Error("no verifier");
  const text = await response.text();
  expect(openCheckpoint(text, verifier)).toMatchObject({ origin: log.origin, size: 6 });
  // Signing is deterministic: this is the checkpoint of the newest receipt.
  expect(parseTlogProof(receipts.at(-1)?.proof ?? "").checkpoint).toBe(text);
});

test("tiles and entries are served in every width that the log has reached", async () => {
  const whole = await bytesOf(`${log.name}/tile/0/000.p/6`);
  expect(whole).toHaveLength(6 * 32);
  for (let width = 1; width <= 6; width++)
    expect(await bytesOf(`${log.name}/tile/0/000.p/${width}`)).toEqual(whole.subarray(0, width * 32));
  const entries = await get(`${log.name}/tile/entries/000.p/6`);
  expect(entries.headers.get("content-type")).toBe("application/octet-stream");
  expect(entries.headers.get("cache-control")).toContain("immutable");
  let rest = Buffer.from(await entries.arrayBuffer());
  for (let index = 0; index < 6; index++) {
    const end = 2 + rest.readUInt16BE(0);
    expect(Buffer.from(leafHash(rest.subarray(2, end)))).toEqual(whole.subarray(index * 32, (index + 1) * 32));
    rest = rest.subarray(end);
  }
  expect(rest).toHaveLength(0);
});

test.each([
  "tile/0/000",
  "tile/0/000.p/7",
  "tile/0/001.p/1",
  "tile/1/000.p/1",
  "tile/entries/000",
  "tile/0/0",
  "tile/0/000.p/06",
  "consistency?from=1&to=7",
  "consistency?from=3&to=2",
  "nothing",
])("%s is answered with 404", async (path) => {
  const response = await get(`${log.name}/${path}`);
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ status: "error", error: { reason: "no_route" } });
});

test("logs are read-only: another method gets the allowed ones, and an unknown path none", async () => {
  const paths = ["checkpoint", "tile/0/000.p/6", "tile/entries/000.p/6", "consistency?from=1&to=2", "search"];
  for (const path of ["/ledger", ...paths.map((each) => `/ledger/${log.name}/${each}`)])
    for (const method of ["POST", "DELETE", "OPTIONS", "PROPFIND"]) {
      // What is searched for may travel in a body.
      if (path.endsWith("/search") && method === "POST") continue;
      const allow = path.endsWith("/search") ? "GET, HEAD, POST" : "GET, HEAD";
      const response = await fetch(gateway.opsUrl + path, { method });
      expect([path, method, response.status, response.headers.get("allow")]).toEqual([path, method, 405, allow]);
      expect(await response.json()).toMatchObject({ status: "error", error: { reason: "method_not_allowed" } });
    }
  for (const path of ["/ledger/", `/ledger/${log.name}`, `/ledger/${log.name}/checkpoint/x`, "/ledgers"]) {
    const response = await fetch(gateway.opsUrl + path, { method: "POST" });
    expect([path, response.status, response.headers.get("allow")]).toEqual([path, 404, null]);
  }
});

test.each(["0".repeat(32), "x", "..", "%00", join("a", "b")])("a log named %j is not found", async (name) => {
  expect((await get(`${name}/checkpoint`)).status).toBe(404);
});

test.each(["from=x&to=2", "from=1&to=2&size=2", "from=1&from=1&to=2", "From=1&to=2"])(
  "a consistency proof for %s is refused",
  async (query) => expect((await get(`${log.name}/consistency?${query}`)).status).toBe(400),
);

test("off loopback only health and metrics are open", async () => {
  const open = await forTest(startGateway({ env: { SVC_OPS_LISTEN: "0.0.0.0:0" } }));
  const url = open.opsUrl.replace("0.0.0.0", "127.0.0.1");
  expect((await fetch(`${url}/livez`)).status).toBe(200);
  expect((await fetch(`${url}/ledger`)).status).toBe(404);
  expect((await fetch(`${url}/ledger/${log.name}/checkpoint`)).status).toBe(404);
});
