import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import { parseTenantId, type TenantId } from "../../../src/base/ids.ts";
import type { PublishedLogs } from "../../../src/ledger/ports/ledger.ts";
import { refusalLog, type ServedLogs } from "../../../src/ops/ledger-access.ts";
import { manualTime } from "../auth/world.ts";
import { startOps } from "./start.ts";

const tenant = (name: string) => parseTenantId(name) as TenantId;
const logs = { published: async () => [] } as unknown as PublishedLogs;

const start = (viewerOf: ServedLogs["viewerOf"], served: PublishedLogs = logs) =>
  startOps({
    logs: {
      ...{ logs: served, viewerOf, explain: async () => ({}), policies: {} as ServedLogs["policies"] },
      consolePage: new URL("./absent/index.html", import.meta.url),
    },
  });

test("a refusal keeps its headers; other errors reveal nothing", async () => {
  let thrown: Error = new ServiceError("issuer_unavailable", "no keys", { retryAfterSeconds: 3 });
  const { request, lines } = await start(() => Promise.reject(thrown));
  const get = () => request("/ledger");
  const unavailable = await get();
  expect([unavailable.status, unavailable.headers.get("retry-after")]).toEqual([503, "3"]);
  thrown = new ServiceError("proof_of_possession_failed", "nonce", { challenge: "DPoP x", dpopNonce: "n-1" });
  const { headers } = await get();
  expect([headers.get("www-authenticate"), headers.get("dpop-nonce")]).toEqual(["DPoP x", "n-1"]);
  thrown = new Error("inner detail");
  const failed = await get();
  expect(failed.status).toBe(500);
  expect(await failed.text()).not.toContain("inner detail");
  expect(lines.filter((line) => line.includes("credentials refused"))).toHaveLength(1);
});

/** Logs whose searches wait until they are let go; a log has the name of its tenant. */
function slowLogs() {
  const begun: string[] = [];
  const waiting: (() => void)[] = [];
  const hash = Buffer.alloc(32).toString("base64");
  const slow = {
    tenantOf: async (name: string) => tenant(name),
    checkpoint: async () => `origin\n1\n${hash}\n\n— origin ${hash}\n`,
    search: async ({ tenantId }: { readonly tenantId: string }) => {
      begun.push(tenantId);
      await new Promise<void>((resolve) => waiting.push(resolve));
      return { found: [], size: 0 };
    },
    published: async () => [],
  } as unknown as PublishedLogs;
  return { slow, begun, release: () => waiting.shift()?.() };
}

test("many requests of one viewer are refused beyond a bound, and delay no other viewer", async () => {
  const { slow, begun, release } = slowLogs();
  const viewerOf = async ({ headers }: IncomingMessage) => {
    return { tenantIds: [tenant(String(headers["x-tenant"]))], presented: true, contentRefusal: undefined };
  };
  const { request, lines } = await start(viewerOf, slow);
  const get = (name: string, path: string) => request(path, { headers: { "x-tenant": name } });
  const flood = Array.from({ length: 300 }, () => get("flood", "/ledger/flood/search"));
  const early: Response[] = [];
  for (const each of flood) void each.then((response) => early.push(response));
  // Two are under way, sixteen wait.
  await expect.poll(() => early).toHaveLength(300 - 18);
  for (const response of early) {
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await response.json()).toMatchObject({ error: { reason: "rate_limited" } });
  }
  expect((await get("flood", "/ledger")).status).toBe(200);
  const other = get("other", "/ledger/other/search");
  await expect.poll(() => lines.filter((line) => line.includes("too many"))).toHaveLength(1);
  while (!begun.includes("other")) {
    release();
    await expect.poll(() => begun.length).toBeGreaterThan(2);
  }
  // Its turn came next or next but one, whatever came before.
  expect(begun.indexOf("other")).toBeLessThan(6);
  const releasing = setInterval(release, 1);
  expect((await other).status).toBe(200);
  expect((await Promise.all(flood)).filter(({ status }) => status === 200)).toHaveLength(18);
  clearInterval(releasing);
  expect(lines.filter((line) => line.includes("too many requests at once"))).toHaveLength(1);
});

test("two reports are made at once, and more than a few waiting ones are refused", async () => {
  const { slow, begun, release } = slowLogs();
  const viewerOf = async () => ({ tenantIds: undefined, presented: true, contentRefusal: undefined });
  const { request } = await start(viewerOf, slow);
  const reports = Array.from({ length: 20 }, () => request("/ledger/x/report?template=access&last=1d"));
  const statuses: number[] = [];
  for (const each of reports) void each.then(({ status }) => statuses.push(status));
  // Two are under way, eight wait.
  await expect.poll(() => statuses).toEqual(Array(10).fill(429));
  expect(begun).toHaveLength(2);
  const releasing = setInterval(release, 1);
  await Promise.all(reports);
  clearInterval(releasing);
  expect(statuses.filter((status) => status === 200)).toHaveLength(10);
});

test("refusals are logged at once, then counted for a minute", () => {
  const lines: unknown[] = [];
  const time = manualTime();
  const note = refusalLog({ warn: (fields) => void lines.push(fields) }, time);
  for (let count = 0; count < 5; count++) note();
  const event = { category: "security", event: "operator_refused" };
  time.advance(59_999);
  expect(lines).toEqual([{ ...event, refused: 1 }]);
  time.advance(1);
  expect(lines).toEqual([
    { ...event, refused: 1 },
    { ...event, refused: 4, window_ms: 60_000 },
  ]);
  note();
  time.advance(60_000);
  expect(lines).toHaveLength(3);
});
