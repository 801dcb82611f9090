/** What operators write of what was registered, in tests and for explanations. */
import { expect, test } from "vitest";
import { parseQueryText } from "../../../src/policy/model/query.ts";

const asked = {
  tenant: "tenant-a",
  action: "access",
  claimed: { workload: { application: "payroll" }, resource: { kind: "record" } },
};
const parse = (registered: unknown) => parseQueryText(JSON.stringify({ ...asked, registered })).registered;

test("what is left out says as little as it can, and every label was there once", () => {
  expect(parse({ resource: { kind: "record" }, labels: ["a"], labels_ever: ["b", "a"] })).toEqual({
    labels: ["a"],
    labels_ever: ["a", "b"],
    attributes: {},
    resource: { kind: "record" },
    artifact_profile: "tdf",
    application: "test-application",
    principal: "test-principal",
    citation_matched: true,
    registered_at: 0,
  });
  expect(parseQueryText(JSON.stringify(asked))).not.toHaveProperty("registered");
});

test.each([
  [{}, "registered.resource must be a map"],
  [{ resource: {} }, "registered.resource.kind must be text"],
  [{ resource: { kind: "a" }, label: ["a"] }, "registered has an unknown member label"],
  [{ resource: { kind: "a" }, citation_matched: "yes" }, "registered.citation_matched must be true or false"],
  [{ resource: { kind: "a" }, registered_at: 1.5 }, "registered.registered_at must be an integer"],
  [{ resource: { kind: "a" }, attributes: { a: 1 } }, "registered.attributes.a must be text"],
])("%j is refused", (registered, message) => expect(() => parse(registered)).toThrow(message));
