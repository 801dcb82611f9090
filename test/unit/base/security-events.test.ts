import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { securityEvents, securityOf } from "../../../src/base/security-events.ts";

test("every security event is documented with its OCSF class, and no other", () => {
  const document = readFileSync(join(import.meta.dirname, "../../../docs/logs.md"), "utf8");
  const rows = [...document.matchAll(/^\| `(\w+)` \|.*\| [A-Z][\w ]+ \(\d{4}\) · \w+ · \w+ \|$/gm)].map(
    ([, name]) => name,
  );
  expect(rows).toEqual([...securityEvents]);
});

test("a lockout is a security event on the session route only; an outage is none", () => {
  expect(securityOf("rate_limited", "SessionService/CreateSession")?.event).toBe("session_locked_out");
  expect(securityOf("rate_limited", "DiscoveryService/WhoAmI")).toBeUndefined();
  expect(securityOf("store_unavailable", "SessionService/CreateSession")).toBeUndefined();
  expect(securityOf("tenant_mismatch", "DiscoveryService/WhoAmI")).toEqual({
    category: "security",
    event: "tenant_mismatch",
  });
});
