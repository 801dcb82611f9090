import { expect, test } from "vitest";
import { readableLog } from "../../../dev/readable-log.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

function written(log: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = "";
  const destination = readableLog((more) => {
    text += more;
  }, false);
  log(createLogger({ level: "info", serviceName: "s", destination }));
  return text.replaceAll(/\d\d:\d\d:\d\d/g, "<time>");
}

test("a request is one readable line", () => {
  const call = { protocol: "rest", rpc: "ProtectionService/PlanProtection", method: "POST", duration_ms: 3.0625 };
  const decided = { decision_id: "0195", allow: true, reasons: ["platform/a", "tenant/b"] };
  const text = written((logger) => {
    logger.info({ request_id: "r", ...call, status: 200, code: "ok", tenant_id: "t", ...decided }, "request");
    logger.warn({ ...call, status: 503, reason: "store_unavailable", detail: "no store" }, "request refused");
    logger.info({ role: "active", policy_revision: "sha256:a" }, "policy set in force");
  });
  expect(text.trimEnd().split("\n")).toEqual([
    "[<time>] INFO: 200 POST ProtectionService/PlanProtection rest 3.1 ms t allow by platform/a, tenant/b 0195",
    "[<time>] WARN: 503 POST ProtectionService/PlanProtection rest 3.1 ms store_unavailable no store",
    '[<time>] INFO: policy set in force role="active" policy_revision="sha256:a"',
  ]);
});

test("a defect has its stack", () => {
  expect(written((logger) => logger.error({ err: new Error("broken") }, "request failed"))).toMatch(
    /request failed\n[\s\S]*broken[\s\S]* at /,
  );
});
