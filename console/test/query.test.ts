import { describe, expect, test } from "vitest";
import { boxOf, parseBox, searchCommand, shellWord } from "../src/query.ts";

const id = "01890a5d-ac96-774b-bcce-b302099a8057";
const hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const cid = "bafkreifzjut3te7nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";

describe("the search box", () => {
  test.each([
    ["principal:payroll outcome:deny last:7d", { principal: "payroll", outcome: "deny", last: "7d" }],
    ['label:"top secret" resource:cust-1', { label: "top secret", resource_id: "cust-1" }],
    [id.toUpperCase(), { decision_id: id }],
    [id.slice(0, 13), { record_id: id.slice(0, 13) }],
    [hex, { artifact_digest: hex }],
    [`sha256:${hex}`, { artifact_digest: `sha256:${hex}` }],
    [cid, { cid }],
    ["cust-8841", { resource_id: "cust-8841" }],
    ['"a:b"', { resource_id: "a:b" }],
    ["from:2026-01-01 to:2026-02-01T12:00:00Z", { from: "2026-01-01T00:00:00Z", to: "2026-02-01T12:00:00Z" }],
    ["  ", {}],
  ])("reads %s", (text, criteria) => {
    expect(parseBox(text)).toEqual({ criteria });
    expect(parseBox(boxOf(criteria))).toEqual({ criteria });
  });

  test.each([
    ["colour:red", "there is no colour"],
    ["last:soon", "last:soon is no period"],
    ["principal:a principal:b", "principal is there twice"],
  ])("reports what is wrong with %s", (text, problem) => {
    expect(parseBox(text).problem).toContain(problem);
  });

  test.each(['say "hi"', "back\\slash", "two  spaces", "a:b", "'quoted'", "<img src=x onerror=alert(1)>"])(
    "keeps a value as it is: %s",
    (value) => {
      expect(parseBox(boxOf({ resource_id: value })).criteria).toEqual({ resource_id: value });
    },
  );
});

test("the equivalent command asks the same, for any values", () => {
  expect(searchCommand("acme", { reason: "tenant/x", label: "it's $HOME" })).toBe(
    "svc-platform-api ledger search --newest --tenant acme --label 'it'\\''s $HOME' --decided-by tenant/x",
  );
  expect(shellWord("")).toBe("''");
});
