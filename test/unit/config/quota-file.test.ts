import { describe, expect, test } from "vitest";
import { parseQuotaFile } from "../../../src/config/data-files.ts";

const requests = { limit: 6000, period_seconds: 60 };

describe("a file of quotas", () => {
  test("has defaults, and tenants that override some of them", () => {
    const text = `
      default:
        requests: { limit: 6000, period_seconds: 60 }
        artifact_bytes: { limit: 1073741824, period_seconds: 86400 }
      tenants:
        tenant-a:
          requests: { limit: 100, period_seconds: 1 }
          artifact_bytes: null
        "42":
          records: { limit: 5, period_seconds: 3600 }
    `;
    const { defaults, tenants } = parseQuotaFile(text);
    const byDefault = {
      requests: { limit: 6000, periodSeconds: 60 },
      artifact_bytes: { limit: 1_073_741_824, periodSeconds: 86_400 },
    };
    expect(defaults).toEqual(byDefault);
    expect(tenants.get("tenant-a")).toEqual({ requests: { limit: 100, periodSeconds: 1 } });
    expect(tenants.get("42")).toEqual({ ...byDefault, records: { limit: 5, periodSeconds: 3600 } });
    expect(tenants.size).toBe(2);
  });

  test("names tenants as written, whatever YAML would make of them", () => {
    const names = ["0123", "1e3", "0x1F", "12345678901234567890", "null", "true", "1.0", "2026-01-01"];
    const { tenants } = parseQuotaFile(`tenants:\n${names.map((name) => `  ${name}: {}`).join("\n")}\n`);
    expect([...tenants.keys()]).toEqual(names);
  });

  test("may be JSON, and empty", () => {
    expect(parseQuotaFile(JSON.stringify({ default: { requests } })).defaults.requests?.limit).toBe(6000);
    expect(parseQuotaFile("")).toEqual({ defaults: {}, tenants: new Map() });
  });

  test.each<[string, unknown, string]>([
    ["a list", [], "the file: must be a map"],
    ["a text", "all", "the file: must be a map"],
    ["an unknown member", { defaults: {} }, "defaults: is not known; there are default, tenants"],
    ["an unknown quota", { default: { calls: requests } }, "default.calls: is not known; there are requests, records"],
    ["a quota of a prototype's name", { default: { constructor: requests } }, "default.constructor: is not known"],
    ["tenants in a list", { tenants: [] }, "tenants: must be a map"],
    ["a tenant that is none", { tenants: { "a b": {} } }, "tenants.a b: must be a tenant id"],
    ["a number for a quota", { default: { requests: 5 } }, "default.requests: must be a map"],
    ["no limit", { default: { requests: { period_seconds: 60 } } }, "default.requests.limit: is required"],
    ["zero", { default: { requests: { ...requests, limit: 0 } } }, "requests.limit: must be a whole number from 1 to"],
    ["a fraction", { default: { requests: { ...requests, limit: 1.5 } } }, "requests.limit: must be a whole number"],
    ["a text for a number", { default: { requests: { ...requests, limit: "60" } } }, "limit: must be a whole number"],
    [
      "too much",
      { default: { records: { ...requests, limit: 1e9 + 1 } } },
      "limit: must be a whole number from 1 to 1000",
    ],
    ["too long", { default: { records: { limit: 1, period_seconds: 1e7 } } }, "period_seconds: must be a whole number"],
    ["another unit", { default: { requests: { ...requests, burst: 1 } } }, "default.requests.burst: is not known"],
    ["a tenant's wrong quota", { tenants: { a: { requests: {} } } }, "tenants.a.requests.limit: is required"],
  ])("refuses %s", (_what, file, problem) => {
    expect(() => parseQuotaFile(JSON.stringify(file))).toThrow(problem);
  });

  test("reports all problems, up to a bound", () => {
    const wrong = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`tenant-${i}`, { records: {} }]));
    expect(() => parseQuotaFile(JSON.stringify({ tenants: wrong }))).toThrow(/tenant-0.*tenant-7.*; and 64 more$/);
  });

  test.each([
    ["a name twice", "default: {}\ndefault: {}"],
    ["a tenant twice", '{"tenants":{"a":{},"a":{}}}'],
    ["a tenant twice among others, by another spelling", '{ "tenants": { "a": {}, "b": {}, "\\u0061": {} } }'],
    ["a quota twice, in YAML", "default:\n  requests: null\n  requests: null\n"],
    ["an alias", "default: &all { requests: { limit: 1, period_seconds: 1 } }\ntenants: { a: *all }"],
    ["half a file", "default: {"],
    ["two documents", "default: {}\n---\ndefault: {}"],
  ])("refuses %s", (_what, text) => {
    expect(() => parseQuotaFile(text)).toThrow();
  });
});
