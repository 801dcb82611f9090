/** Obligations and alerts: what a policy may write, what is answered, and what denies. */
import { expect, test } from "vitest";
import { runPolicyTests } from "../../../src/policy/engine/policy-tests.ts";
import { parsePolicyTests } from "../../../src/policy/load/policy-test-file.ts";
import { ask, declaringFiles, engineOf, openFiles, permitAll, problemsOf } from "./harness.ts";

/** A directory whose tenant set has the policies, under a manifest that declares attributes of the caller. */
const filesOf = (...policies: readonly string[]) => ({ ...declaringFiles, "default/all.cedar": policies.join("\n") });

/** A permit for all that carries the annotations. */
const permit = (id: string, annotations: string, condition = "true") =>
  `@id("${id}") ${annotations} permit (principal, action, resource) when { ${condition} };`;
const caller = { attributes: { clearance: 3, on_call: true } };
const understanding = (...understoodObligations: readonly string[]) => ({ understoodObligations });

test("an allow carries the obligations of the deciding policies, with constants and inputs of every type", async () => {
  const annotations = `@obligation("notify-owner; to = 'Dr. May; \\"ward 3\\"'; within_hours = 24; urgent = true; empty = ''")
    @obligation_2("stamp; clearance = principal.clearance; on_call=principal.on_call; by = principal.subject;
      region = claimed.attributes.region; kind = claimed.resource.kind; digest = claimed.content_digest_present; less = -1")`;
  const engine = await engineOf(filesOf(permit("obliging", annotations)));
  const question = ask("access", { attributes: { region: "eu", other: "x" } }, caller);
  const decision = engine.decide({ ...question, ...understanding("stamp", "notify-owner", "other") });
  expect(decision).toMatchObject({ allow: true, reasons: ["platform/all", "tenant/obliging"], alerts: [] });
  expect(decision.obligations).toEqual([
    { id: "notify-owner", parameters: { empty: "", to: 'Dr. May; "ward 3"', urgent: "true", within_hours: "24" } },
    {
      id: "stamp",
      parameters: {
        ...{ by: "writer-subject", clearance: "3", digest: "false", kind: "record", less: "-1" },
        ...{ on_call: "true", region: "eu" },
      },
    },
  ]);
  // What parameters are taken from is read: for the cache, and for the list of what was considered.
  expect(decision.inputs).toEqual([
    ...["attributes.region", "caller.attributes.clearance", "caller.attributes.on_call", "caller.subject"],
    ...["content_digest_present", "resource.kind"],
  ]);
});

test("a denial carries those of the deciding forbids; none has to be understood", async () => {
  const forbid = (id: string, annotations: string) =>
    `@id("${id}") ${annotations} forbid (principal, action, resource) when { context.claimed.labels.contains("${id}") };`;
  const engine = await engineOf(
    filesOf(
      permit("permits", '@obligation("stamp") @alert("permitted")'),
      forbid("a", '@obligation("tell; kind = claimed.resource.kind") @alert("tried, odd")'),
      forbid("b", '@obligation("tell; why = claimed.purpose")'),
    ),
  );
  expect(engine.decide(ask("access", { labels: ["a"] }, caller))).toMatchObject({
    allow: false,
    reasons: ["tenant/a"],
    obligations: [{ id: "tell", parameters: { kind: "record" } }],
    alerts: ["odd", "tried"],
  });
  // What denies does so without the value, too.
  expect(engine.decide(ask("access", { labels: ["a", "b"] }, caller))).toMatchObject({
    allow: false,
    reasons: ["platform/obligation-without-value", "tenant/a", "tenant/b"],
    obligations: [{ id: "tell", parameters: { kind: "record" } }],
  });
});

test("equal obligations are one; with other parameters they are two", async () => {
  const engine = await engineOf({
    ...filesOf(
      permit("a", '@obligation("keep; days = 30; where = \'here\'") @alert("one, two")'),
      permit("b", '@obligation("keep; where = \'here\'; days = 30") @alert("two")'),
      permit("c", '@obligation("keep; days = 90; where = \'here\'") @obligation_8("also")'),
    ),
    "platform/all.cedar": permit("all", "@obligation(\"keep; where = 'here'; days = 30\")"),
  });
  const decision = engine.decide({ ...ask("access", {}, caller), ...understanding("keep", "also") });
  expect(decision).toMatchObject({ allow: true, alerts: ["one", "two"] });
  expect(decision.obligations).toEqual([
    { id: "also", parameters: {} },
    { id: "keep", parameters: { days: "30", where: "here" } },
    { id: "keep", parameters: { days: "90", where: "here" } },
  ]);
});

test("more obligations than a request can list deny", async () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => permit(`p${index}`, `@obligation("keep; days = ${index}")`));
  for (const [count, allow] of [
    [64, true],
    [65, false],
  ] as const) {
    const engine = await engineOf(filesOf(...many(count)));
    const decision = engine.decide({ ...ask("access", {}, caller), ...understanding("keep") });
    expect(decision.allow).toBe(allow);
    if (!allow) expect(decision.reasons).toEqual(expect.arrayContaining(["platform/guidance-conflict", "tenant/p64"]));
  }
});

test.each([
  ["no id", "", "begin with an id"],
  ["an id that is none", "Notify", "begin with an id"],
  ["parameters alone", "days = 3", "begin with an id"],
  ["an id without a letter first", "3days", "begin with an id"],
  ["no name", "notify; 3", "name = value"],
  ["an empty member", "notify;", "name = value"],
  ["a name that is none", "notify; __proto__ = 3", "name = value"],
  ["a name twice", "notify; a = 1; a = 1", "name a once"],
  ["a word", "notify; a = soon", "give a a quoted text"],
  ["yes", "notify; a = yes", "give a a quoted text"],
  ["a fraction", "notify; a = 1.5", "give a a quoted text"],
  ["a number with a zero first", "notify; a = 007", "give a a quoted text"],
  ["a number that JSON rounds", "notify; a = 9007199254740993", "give a a quoted text"],
  ["nothing", "notify; a =", "give a a quoted text"],
  ["an open quote", "notify; a = 'b", "close every quote"],
  ["a quote too many", "notify; a = 'b'c", "give a a quoted text"],
  ["a set", "notify; a = claimed.labels", "give a a quoted text"],
  ["all tags", "notify; a = claimed.attributes", "give a a quoted text"],
  ["a record", "notify; a = claimed.workload", "give a a quoted text"],
  ["no input", "notify; a = claimed.owner", "give a a quoted text"],
  ["an undeclared attribute", "notify; a = principal.ward", "give a a quoted text"],
  ["the path in full", "notify; a = context.claimed.purpose", "give a a quoted text"],
  ["seventeen parameters", `notify${"; a = 1".repeat(17)}`, "at most 16"],
  ["two lines", "notify; a = 'b\\nc'", "one line"],
])("an obligation with %s is refused", async (_what, text, problem) => {
  const [found, ...others] = await problemsOf(filesOf(permit("p", `@obligation("${text}")`)));
  expect(others).toEqual([]);
  expect(found).toContain("default/all.cedar:1: @obligation must ");
  expect(found).toContain(problem);
});

test("annotations beyond the eighth, and invalid alert names, are refused", async () => {
  const annotations = '@obligation_9("notify") @obligation_1("notify") @alert("Break Glass") @obligation_2';
  expect(await problemsOf(filesOf(permit("p", annotations)))).toEqual([
    expect.stringContaining("@alert must be a comma-separated list"),
    expect.stringContaining("@obligation_2 must begin with an id"),
    expect.stringContaining("unknown annotation @obligation_1;"),
    expect.stringContaining("unknown annotation @obligation_9;"),
  ]);
});

const disclosing = (list: string, ...policies: readonly string[]) => ({
  ...filesOf(...policies),
  "manifest.yaml": `${openFiles["manifest.yaml"]}${list}\n`,
});

test("registered values are disclosed if the manifest says so, and no others", async () => {
  const tell = (from: string) => permit("p", `@obligation("tell; it = registered.${from}")`);
  const manifest = "disclosable: [attributes.owner, resource.id, citation_matched]";
  for (const from of ["attributes.owner", "resource.id", "citation_matched"]) {
    expect(await problemsOf(disclosing(manifest, tell(from)))).toEqual([]);
  }
  for (const from of ["attributes.other", "attributes.own", "resource.kind", "principal", "application"]) {
    const problem = `take it from what the manifest says is disclosable, which registered.${from} is not`;
    expect(await problemsOf(disclosing(manifest, tell(from)))).toEqual([expect.stringContaining(problem)]);
    expect(await problemsOf(filesOf(tell(from)))).toEqual([expect.stringContaining(problem)]);
  }
  for (const from of ["labels", "labels_ever", "attributes", "resource", "nothing"]) {
    expect(await problemsOf(disclosing(manifest, tell(from)))).toEqual([expect.stringContaining("give it a quoted")]);
  }
});

test.each([
  ["a set", "disclosable: [labels]", '"labels" is not'],
  ["all attributes", "disclosable: [attributes]", '"attributes" is not'],
  ["what there is not", "disclosable: [owner]", '"owner" is not'],
  ["a claim", "disclosable: [claimed.purpose]", '"claimed.purpose" is not'],
  ["no list", "disclosable: attributes.owner", '"" is not'],
])("a manifest that would disclose %s is refused", async (_what, list, problem) => {
  expect(await problemsOf(disclosing(list, permitAll))).toEqual([expect.stringContaining(problem)]);
});

test("policy tests list understood obligations, and expect obligations and alerts", async () => {
  const engine = await engineOf({
    ...openFiles,
    "default/all.cedar": permit("p", '@obligation("keep; days = 30; on = true") @alert("a, b")'),
  });
  const text = (understood: string, expected: string) => `- name: t
  tenant: tenant-a
  action: access
  claimed: { workload: { application: a }, resource: { kind: k } }
  ${understood}
  expect: { ${expected} }
`;
  const run = (understood: string, expected: string) => {
    const { tests, problems } = parsePolicyTests("t.yaml", text(understood, expected));
    return [...problems, ...runPolicyTests(engine, tests).results.flatMap(({ differences }) => differences)];
  };
  const understood = "understood_obligations: [keep]";
  const obligations = "obligations: [{ id: keep, parameters: { on: true, days: 30 } }]";
  expect(run(understood, `allow: true, ${obligations}, alerts: [b, a]`)).toEqual([]);
  expect(run("", "allow: false, obligations: [], alerts: [], reasons: [platform/obligation-not-understood]")).toEqual(
    [],
  );
  expect(run(understood, "allow: true, obligations: [{ id: keep }], alerts: [a]")).toEqual([
    expect.stringMatching(/^obligations: expected .*"keep".*"days":"30"/),
    'alerts: expected ["a"], got ["a","b"]',
  ]);
  expect(run(understood, "allow: true, obligations: keep")).toMatchObject([{ message: expect.any(String) }]);
});
