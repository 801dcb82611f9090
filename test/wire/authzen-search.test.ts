/** Searches of enforcement points over the wire (AuthZEN 1.0, Search APIs), over the candidates that they name. */

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { searches as pairsOfSearches } from "../fixtures/authzen-pairs.ts";
import { ordinaryScopes, record, startAuthzen, user } from "../harness/authzen.ts";
import { folderForFile } from "../harness/folder.ts";
import { type RestAnswer, rest } from "../harness/gateway.ts";
import { logKeyOf, recordIn } from "../harness/ledger.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { run } from "../unit/cli/surroundings.ts";

type Any = RestAnswer["body"];

const gateway = await forFile(startAuthzen());
const token = await gateway.token();

const search = (searched: string, body: object | string, options: object = {}): Promise<RestAnswer> =>
  rest(`${gateway.url}/access/v1/search/${searched}`, { token, body, ...options });
const ask = (body: object): Promise<RestAnswer> => rest(`${gateway.url}/access/v1/evaluation`, { token, body });

const ids = ({ body }: RestAnswer): readonly string[] => body.results.map(({ id }: Any) => id);

const people = ["carol", "bob", "alice", "mallory"].map((id) => ({ id }));
const readers = {
  subject: { type: "user" },
  action: { name: "read" },
  resource: record("record-1"),
  context: { candidates: people },
};
const records = [record("record-2"), { type: "route", id: "r" }].map(({ id }) => ({ id }));
const readable = {
  subject: user("alice"),
  action: { name: "read" },
  resource: { type: "record" },
  context: { candidates: records },
};

describe("subjects", () => {
  test("returns the permitted candidates in their order", async () => {
    const { status, body } = await search("subject", readers);
    expect(status).toBe(200);
    expect(body).toEqual({
      context: {
        decisions: people.map(({ id }) => ({
          decision_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          decision: id === "alice" || id === "bob",
          id,
        })),
      },
      results: [user("bob"), user("alice")],
    });
  });

  test.each<readonly [string, object, readonly string[]]>([
    ["an id, which is ignored", { subject: user("alice") }, ["bob", "alice"]],
    ["an id that is none", { subject: { type: "user", id: 7 } }, ["bob", "alice"]],
    [
      "further context",
      { context: { candidates: people, time: "2025-06-27T18:03-07:00", ip: "::1" } },
      ["bob", "alice"],
    ],
    [
      "members that are not known",
      { subject: { type: "user", x: 1 }, context: { candidates: [{ id: "bob", x: [] }] } },
      ["bob"],
    ],
    ["a type that no policy knows", { subject: { type: "spaceship" } }, []],
    [
      "a type with each candidate",
      { context: { candidates: [user("bob"), { type: null, id: "alice" }] } },
      ["bob", "alice"],
    ],
    ["a resource that no policy knows", { resource: record("record-x", { a: 1 }) }, ["bob", "alice"]],
    ["an empty list", { context: { candidates: [] } }, []],
  ])("with %s", async (_name, change, expected) => {
    const answer = await search("subject", { ...readers, ...change });
    expect([answer.status, ids(answer)]).toEqual([200, expected]);
  });

  test("reads properties of each candidate, and properties that all share", async () => {
    const archived = { ...readers, action: { name: "write" }, resource: record("record-2", { status: "archived" }) };
    const admin = { role: "admin" };
    const of = async (subject: object, candidates: readonly object[]) =>
      ids(await search("subject", { ...archived, subject: { type: "user", ...subject }, context: { candidates } }));
    expect(await of({}, [{ id: "alice" }, { id: "bob", properties: admin }])).toEqual(["bob"]);
    expect(await of({ properties: admin }, [{ id: "alice" }, { id: "bob", properties: null }])).toEqual([
      "alice",
      "bob",
    ]);
    const clerk = { id: "bob", properties: { role: "clerk" } };
    expect(await of({ properties: admin }, [{ id: "alice" }, clerk])).toEqual(["alice"]);
  });

  test("finds the caller by its own rights, and no other subject without the scope", async () => {
    const ordinary = await gateway.token({ scope: ordinaryScopes.join(" ") });
    const { body: who } = await rest(`${gateway.url}/v1/sdk/whoami`, { token: ordinary });
    const self = { id: who.caller.principal_id };
    const asked = { ...readers, subject: { type: "principal" } };
    const found = await search("subject", { ...asked, context: { candidates: [self] } }, { token: ordinary });
    expect([found.status, ids(found)]).toEqual([200, [self.id]]);
    const { status, body } = await search(
      "subject",
      { ...asked, context: { candidates: [self, { id: "another" }] } },
      { token: ordinary },
    );
    expect([status, body.error.missing_scopes]).toEqual([403, ["decisions.delegate"]]);
  });
});

describe("resources", () => {
  test("that are denied in any number are no spike of denials", async () => {
    const candidates = Array.from({ length: 25 }, (_, n) => ({ id: `record-${n}` }));
    const { body } = await search("resource", { ...readable, subject: user("stranger"), context: { candidates } });
    expect([body.results, body.context.decisions.length]).toEqual([[], 25]);
    expect(gateway.logged.filter((line) => line.includes("denials_spiked"))).toEqual([]);
  });

  test("returns the resources that the subject may access, in their order", async () => {
    const { status, body } = await search("resource", readable);
    expect([status, body.results]).toEqual([200, [record("record-2"), record("r")]]);
    expect(body.context.decisions.map(({ id, decision }: Any) => [id, decision])).toEqual([
      ["record-2", true],
      ["r", true],
    ]);
    const bob = { ...readable, action: { name: "write" }, subject: user("bob", { role: "admin" }) };
    const candidates = [{ id: "record-1" }, { id: "record-2", properties: { status: "archived" } }];
    expect(ids(await search("resource", { ...bob, context: { candidates } }))).toEqual(["record-2"]);
    expect(ids(await search("resource", { ...bob, resource: { type: "route" }, context: { candidates } }))).toEqual([]);
  });

  test("reads the registered facts of each candidate", async () => {
    const properties = { labels: ["watched"] };
    const candidates = [{ id: "a" }, { id: "b", properties }];
    const context = { candidates, workload: { application: "viewer" } };
    expect(ids(await search("resource", { ...readable, context }))).toEqual(["a"]);
    const understood = { ...context, understood_obligations: ["watermark"] };
    expect(ids(await search("resource", { ...readable, context: understood }))).toEqual(["a", "b"]);
  });
});

describe("actions", () => {
  const ofBob = { subject: user("bob"), resource: record("record-1") };
  const names = ({ body }: RestAnswer) => body.results.map(({ name }: Any) => name);

  test("without candidates, searches the six actions and the names that the manifest maps", async () => {
    const { status, body } = await search("action", ofBob);
    expect([status, body.results.map(({ name }: Any) => name)]).toEqual([
      200,
      ["access", "GET", "can_read_todos", "can_read_user", "read"],
    ]);
    const asked = body.context.decisions.map(({ name }: Any) => name);
    expect(asked.slice(0, 6)).toEqual(["protect", "access", "rewrap", "wrap", "unwrap", "rewrapKey"]);
    expect(asked.slice(6)).toEqual([
      ...["DELETE", "GET", "POST", "PUT", "can_create_todo", "can_delete_todo", "can_read_todos", "can_read_user"],
      ...["can_update_todo", "delete", "read", "write"],
    ]);
  });

  test("with candidates, searches only these, each with its properties", async () => {
    const alice = { ...ofBob, subject: user("alice") };
    const candidates = (soft: boolean) => [{ name: "delete", properties: { soft } }, { name: "read" }];
    const of = async (soft: boolean) =>
      names(await search("action", { ...alice, context: { candidates: candidates(soft) } }));
    expect(await of(true)).toEqual(["delete", "read"]);
    expect(await of(false)).toEqual(["read"]);
    expect(names(await search("action", { ...alice, context: { candidates: [] } }))).toEqual([]);
  });

  test("a search about keys needs the scope for keys", async () => {
    const plain = await gateway.token({ scope: "platform-api.access policy.read decisions.delegate" });
    const all = await search("action", ofBob, { token: plain });
    expect([all.status, all.body.error.missing_scopes]).toEqual([403, ["keys.use"]]);
    const context = { candidates: [{ name: "read" }] };
    expect(names(await search("action", { ...ofBob, context }, { token: plain }))).toEqual(["read"]);
  });
});

test("every pair of the scenarios finds the expected results", async () => {
  const scenario = await forTest(startAuthzen(join(import.meta.dirname, "../fixtures/authzen-search")));
  const token = await scenario.token();
  for (const [searched, pairs] of Object.entries(pairsOfSearches)) {
    for (const { request, expected } of pairs) {
      const { body } = await rest(`${scenario.url}/access/v1/search/${searched}`, { token, body: request });
      expect({ request, results: body.results }).toEqual({ request, results: expected });
    }
  }
});

test("a search finds what an evaluation permits, and records the same", async () => {
  const headers = { "x-svc-receipt": "full" };
  const candidates = [{ id: "alice", properties: { groups: ["a", "b"] } }, { id: "carol" }, { id: "bob" }];
  const context = { purpose: "preview", workload: { application: "viewer" }, ip: "::1" };
  const { body } = await search("subject", { ...readers, context: { ...context, candidates } }, { headers });
  for (const [at, { id, properties }] of candidates.entries()) {
    const { body: single } = await ask({ ...readers, subject: user(id, properties), context });
    const found = body.context.decisions[at];
    expect(found).toMatchObject({ decision: single.decision, id });
    const { request, outcome, route, caller } = recordIn(found);
    const expected = recordIn(single.context);
    expect({ request, outcome, route, caller }).toEqual({
      request: expected.request,
      outcome: expected.outcome,
      route: expected.route,
      caller: expected.caller,
    });
    expect(recordIn(found).record_id).toBe(found.decision_id);
  }
  // One commit has all of them.
  const receipts = body.context.decisions.map(({ receipt }: Any) => receipt);
  const [first] = receipts;
  expect(receipts.map(({ tree_size }: Any) => tree_size)).toEqual(receipts.map(() => first.tree_size));
  expect(receipts.map(({ leaf_index }: Any) => leaf_index)).toEqual(
    receipts.map((_: Any, i: number) => first.leaf_index + i),
  );
});

const folder = folderForFile("authzen-answers");

describe("an answer with its receipts", () => {
  const headers = { "x-svc-receipt": "full" };
  const evaluations = [
    { subject: user("alice") },
    { subject: user("mallory") },
    { subject: user("alice"), action: { name: "write" } },
    { subject: { type: "principal", id: defaultClient().principalId }, action: { name: "protect" } },
  ];
  const watched = record("record-1", { labels: ["watched"] });
  const paged = { ...readers, page: { limit: 1 } };
  const answers: readonly (readonly [string, string, object])[] = [
    ["to a question", "evaluation", { ...readers, subject: user("alice") }],
    ["to a question that is denied", "evaluation", { ...readers, subject: user("mallory") }],
    [
      "that obliges",
      "evaluation",
      { ...readers, subject: user("alice"), resource: watched, context: { understood_obligations: ["watermark"] } },
    ],
    ["that obliges to what is not understood", "evaluation", { ...readers, subject: user("alice"), resource: watched }],
    ["to several questions", "evaluations", { ...readers, evaluations }],
    ["to a search for subjects", "search/subject", readers],
    ["to a page of it", "search/subject", paged],
    ["to a search for resources", "search/resource", readable],
    ["to a search for actions", "search/action", { subject: user("alice"), resource: record("record-1") }],
  ];

  /** The answer as it came, and the key of its log. */
  async function answered(path: string, body: object): Promise<{ answer: Any; key: string }> {
    const { status, body: answer } = await rest(`${gateway.url}/access/v1/${path}`, { token, body, headers });
    expect(status).toBe(200);
    return { answer, key: logKeyOf(join(gateway.dataDir, "ledger.key"), receiptsIn(answer)[0].log_origin) };
  }

  const receiptsIn = (value: Any): Any[] =>
    typeof value !== "object" || value === null
      ? []
      : Object.entries(value).flatMap(([name, member]) => (name === "receipt" ? [member] : receiptsIn(member)));

  async function verify(answer: Any, key: string, named = "answer.json") {
    const file = join(folder, named);
    writeFileSync(file, JSON.stringify(answer));
    return run("ledger", "receipt", "verify", file, "--key", key);
  }

  /** The answer with one of its members changed, or left out, outside of its receipts; each with its path. */
  function* changes(value: Any, path = ""): Generator<[string, Any]> {
    if (typeof value !== "object" || value === null) {
      yield [path, typeof value === "number" ? value + 1 : typeof value === "boolean" ? !value : `${value}x`];
      return;
    }
    for (const [name, member] of Object.entries(value)) {
      if (name === "receipt" || name === "next_token") continue;
      const at = (changed: Any) =>
        Array.isArray(value) ? value.with(Number(name), changed) : { ...value, [name]: changed };
      for (const [inner, changed] of changes(member, `${path}.${name}`)) yield [inner, at(changed)];
      if (Array.isArray(value)) yield [`${path} without ${name}`, value.toSpliced(Number(name), 1)];
      if (Array.isArray(value)) yield [`${path} with ${name} twice`, value.toSpliced(Number(name), 0, member)];
    }
  }

  test.each(answers)("%s agrees with its records, and is refused if any member is changed", async (_, path, body) => {
    const { answer, key } = await answered(path, body);
    const genuine = await verify(answer, key);
    expect([genuine.code, genuine.err]).toEqual([0, ""]);
    expect(genuine.out.match(/the answer says the same/g)).toHaveLength(receiptsIn(answer).length);
    let changed = 0;
    for (const [place, other] of changes(answer)) {
      // To leave out a part says less, and nothing false.
      if (/^\.(context\.decisions|evaluations) without/.test(place)) continue;
      changed += 1;
      expect([place, (await verify(other, key)).code]).toEqual([place, 1]);
    }
    expect(changed).toBeGreaterThan(2);
  });

  test("an answer cannot choose by its form what is compared", async () => {
    const { answer: single, key } = await answered("evaluation", { ...readers, subject: user("alice") });
    const { answer: several } = await answered("evaluations", { ...readers, evaluations: evaluations.slice(0, 1) });
    const { answer: found } = await answered("search/subject", readers);
    const { decision_id, receipt } = single.context;
    const wrong = { ...single.context, obligations: [{ id: "none", parameters: {} }] };
    const deny = { decision: false };
    const doctored: readonly (readonly [Any, string])[] = [
      // Like a decision of a search, which has no context.
      [{ ...single, decision_id, context: wrong }, "context.obligations"],
      [{ decision: single.decision, decision_id, receipt }, "context.decision_id"],
      // Beside an answer that holds.
      [{ ...single, results: [{ type: "user", id: "mallory" }] }, "results"],
      [{ ...found, evaluations: several.evaluations }, "results"],
      [{ ...several, ...deny }, "decision"],
      [{ ...found, ...deny }, "decision"],
    ];
    for (const [answer, member] of doctored) {
      const { code, err } = await verify(answer, key);
      expect([code, err]).toEqual([1, expect.stringContaining(`the answer's ${member} is not what its record says`)]);
    }
  });

  test("an answer with a brief receipt among full ones is not confirmed", async () => {
    const { answer, key } = await answered("search/subject", readers);
    const { leaf: _, opening: __, record: ___, ...brief } = answer.context.decisions[1].receipt;
    const decisions = answer.context.decisions.with(1, { ...answer.context.decisions[1], receipt: brief });
    const results = [user("mallory")];
    expect(await verify({ ...answer, context: { decisions }, results }, key)).toMatchObject({
      code: 1,
      err: "context.decisions[1].receipt is brief: the answer was not compared with its record\n",
    });
  });

  test("an answer that lacks the receipt of a part proves nothing", async () => {
    const { answer, key } = await answered("search/subject", readers);
    const { receipt: _, ...bare } = answer.context.decisions[1];
    const decisions = answer.context.decisions.with(1, bare);
    expect(await verify({ ...answer, context: { decisions } }, key)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/context\.decisions\[1\] holds no receipt/),
    });
    const foreign = { ...answer, context: { decisions: [] }, results: [] };
    expect((await verify(foreign, key)).err).toMatch(/holds no receipt/);
  });

  test("an answer of another route is refused", async () => {
    const { answer, key } = await answered("evaluation", { ...readers, subject: user("alice") });
    const plan = await rest(`${gateway.url}/v1/sdk/policy-resolve`, {
      token,
      body: { operation: "access", workload: { application: "x" }, resource: { kind: "record", id: "record-1" } },
    });
    const moved = { ...answer, context: { ...answer.context, receipt: plan.body.decision.receipt } };
    expect((await verify(moved, key)).code).toBe(1);
    const { decision } = plan.body;
    expect((await verify({ ...plan.body, decision: { ...decision, receipt: answer.context.receipt } }, key)).code).toBe(
      1,
    );
  });

  test("verifies in Python too", async () => {
    const all = await Promise.all(answers.map(([, path, body]) => answered(path, body)));
    const files = all.map(({ answer }, position) => {
      const file = join(folder, `${position}.json`);
      writeFileSync(file, JSON.stringify(answer));
      return file;
    });
    const program = join(import.meta.dirname, "../../examples/verifier/verify.py");
    const args = [program, "receipt", ...files, "--key", String(all[0]?.key)];
    const verdicts = execFileSync("python3", args, { encoding: "utf8" }).trim().split("\n");
    expect(verdicts).toHaveLength(answers.length);
    for (const [position, { answer }] of all.entries()) {
      const said = JSON.parse(String(verdicts[position]));
      const ids = (said.parts ?? [said]).map(({ record: { record_id: id } }: Any) => id);
      expect(ids).toEqual(receiptsIn(answer).map(({ record_id: id }) => id));
    }
  });
});

describe("pages", () => {
  const candidates = ["alice", "carol", "bob", "mallory", "dora"].map((id) => ({ id }));
  const asked = { ...readers, context: { candidates } };
  const pageOf = (page: object, change: object = {}) => search("subject", { ...asked, page, ...change });

  test.each([1, 2, 3, 5, 2 ** 53 - 1])("pages of %d results add up to the whole answer", async (limit) => {
    const found: string[] = [];
    let decided = 0;
    let token = "";
    do {
      const { status, body } = await pageOf(token === "" ? { limit } : { token });
      expect(status).toBe(200);
      expect(Object.keys(body)).toEqual(["page", "context", "results"]);
      expect(body.page.count).toBe(body.results.length);
      expect(body.results.length).toBeLessThanOrEqual(limit);
      found.push(...body.results.map(({ id }: Any) => id));
      decided += body.context.decisions.length;
      token = body.page.next_token;
    } while (token !== "");
    // Nothing is asked, or recorded, twice.
    expect([found, decided]).toEqual([["alice", "bob"], candidates.length]);
  });

  test("a request without a page gets no page, and a page without a limit gets all results", async () => {
    expect((await search("subject", asked)).body).not.toHaveProperty("page");
    expect((await pageOf({ properties: { sort: "id" } })).body.page).toEqual({ next_token: "", count: 2 });
  });

  test("a page of no results asks nothing, and its token starts at the same place", async () => {
    const { body } = await pageOf({ limit: 0 });
    expect(body).toMatchObject({ page: { count: 0 }, context: { decisions: [] }, results: [] });
    expect(body.page.next_token).not.toBe("");
    const empty = await pageOf({ limit: 0 }, { context: { candidates: [] } });
    expect(empty.body.page).toEqual({ next_token: "", count: 0 });
  });

  test("a page token is valid for its own search only", async () => {
    const { body } = await pageOf({ limit: 1 });
    const token = body.page.next_token as string;
    const [at, , digest] = token.split(".");
    const refusedField = async (page: object, change: object = {}) => {
      const { status, body: answer } = await pageOf(page, change);
      return [status, answer.error?.violations[0].field];
    };
    expect((await pageOf({ token, limit: 1 })).status).toBe(200);
    expect((await pageOf({ token }, { subject: user("ignored") })).status).toBe(200);
    expect(await refusedField({ token, limit: 2 })).toEqual([400, "page.limit"]);
    for (const change of [
      { action: { name: "write" } },
      { resource: record("record-2") },
      { subject: { type: "identity" } },
      { subject: { type: "user", properties: { a: 1 } } },
      { context: { candidates: [...candidates, { id: "eve" }] } },
      { context: { candidates: candidates.toReversed() } },
      { context: { candidates, purpose: "another" } },
    ])
      expect(await refusedField({ token }, change), JSON.stringify(change)).toEqual([400, "page.token"]);
    for (const other of [
      ...["x", "1", "1.1", `${at}.1.${digest}.`, `5.1.${digest}`, `01.1.${digest}`, `-1.1.${digest}`, `1.x.${digest}`],
      ...[`1..${digest}`, `.1.${digest}`, `1.1.${digest?.toUpperCase()}`, `1e0.1.${digest}`],
    ])
      expect(await refusedField({ token: other }), other).toEqual([400, "page.token"]);
  });
});

const many = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `user-${i}` }));
const at = (i: number, member = "") => `context.candidates[${i}]${member}`;
const withCandidates = (...candidates: readonly unknown[]) => ({ context: { candidates } });

const spelled = (name: string, value: unknown) => withCandidates({ id: "a", properties: { [name]: value } });
const actionNames = (...names: readonly string[]) => withCandidates(...names.map((name) => ({ name })));
const searches = { subject: readers, resource: readable, action: { ...readable, resource: record("a") } };
const huge = "x".repeat(1025);
const things = ["subject", "resource"] as const;

test.each<readonly [string, readonly (keyof typeof searches)[], object, readonly string[]]>([
  ["no context", things, { context: undefined }, ["context.candidates"]],
  ["no candidates", things, { context: { time: "now" } }, ["context.candidates"]],
  ["candidates that are no list", things, { context: { candidates: { id: "alice" } } }, ["context.candidates"]],
  ["too many", things, { context: { candidates: many(1_001) } }, ["context.candidates"]],
  ["one that is none", things, withCandidates({ id: "a" }, "alice"), [at(1)]],
  ["one without an id", things, withCandidates({ id: "a" }, {}), [at(1, ".id")]],
  ["one with an empty id", things, withCandidates({ id: "" }), [at(0, ".id")]],
  ["one twice", things, withCandidates({ id: "a" }, { id: "b" }, { id: "a", properties: { x: 1 } }), [at(2, ".id")]],
  ["one of another type", things, withCandidates({ id: "a" }, { type: "other", id: "b" }), [at(1, ".type")]],
  ["one with properties that are no map", things, withCandidates({ id: "a", properties: [] }), [at(0, ".properties")]],
  [
    "one with a huge property",
    things,
    withCandidates({ id: "a", properties: { x: 1, y: huge } }),
    [at(0, ".properties[1].value")],
  ],
  ["several wrong ones", things, withCandidates({ id: "a" }, 1, { id: "" }), [at(1), at(2, ".id")]],
  ["an unknown action", things, { action: { name: "fly" } }, ["action.name"]],
  ["a limit that is none", things, { page: { limit: "2" } }, ["page.limit"]],
  ["a subject without a type", ["subject"], { subject: {} }, ["subject.type"]],
  ["a resource without an id", ["subject"], { resource: { type: "record" } }, ["resource.id"]],
  ["a candidate not in NFC", ["subject"], withCandidates({ id: "a" }, { id: "e\u0301ve" }), [at(1, ".id")]],
  ["a property with = of a candidate", ["subject"], spelled("b=c", 1), [at(0, ".properties[0].key")]],
  [
    "a property with = of all, which is said once",
    ["subject"],
    { subject: { type: "user", properties: { "b=c": 1 } } },
    ["subject.properties[0].key"],
  ],
  ["labels of a candidate in a wrong form", ["resource"], spelled("labels", "x"), [at(0, ".properties.labels")]],
  ["a subject without an id", ["resource"], { subject: { type: "user" } }, ["subject.id"]],
  ["a resource without a type", ["resource"], { resource: { id: "a" } }, ["resource.type"]],
  ["an unknown action among candidates", ["action"], actionNames("fly"), [at(0, ".name")]],
  ["an action without a name", ["action"], withCandidates({ id: "read" }), [at(0, ".name")]],
  ["an action twice", ["action"], actionNames("read", "read"), [at(1, ".name")]],
  [
    "parameters of an action that are too long",
    ["action"],
    withCandidates({ name: "read", properties: { a: huge } }),
    [at(0, ".properties[0].value")],
  ],
])("a search with %s is refused, for %j", async (_name, all, change, fields) => {
  for (const searched of all) {
    const { status, body } = await search(searched, { ...searches[searched], ...change });
    expect([searched, status, body.error?.reason]).toEqual([searched, 400, "invalid_request"]);
    expect(body.error.violations.map(({ field }: Any) => field)).toEqual(fields);
  }
});

test("the largest allowed search is answered, and shared members do not make it larger than a bulk call", async () => {
  const properties = { department: "finance", role: "clerk" };
  const candidates = many(1_000).map((candidate) => ({ ...candidate, properties }));
  const { status, body } = await search("subject", { ...readers, context: { candidates } });
  expect([status, body.results, body.context.decisions.length]).toEqual([200, [], 1_000]);
  const resource = record("record-1", { note: "x".repeat(1_000) });
  const large = await search("subject", { ...readers, resource, context: { candidates: many(1_000) } });
  expect([large.status, large.body.error.violations[0].field]).toEqual([400, "context.candidates"]);
  expect((await search("subject", { ...readers, resource, context: { candidates: many(800) } })).status).toBe(200);
  const notes = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`p${i}`, "x".repeat(1_000)]));
  const actions = { subject: user("alice", notes), resource: record("r") };
  const all = await search("action", actions);
  expect([all.status, all.body.error.violations[0].rule]).toEqual([400, "repeated.max_bytes"]);
  const some = await search("action", { ...actions, context: { candidates: [{ name: "read" }] } });
  expect([some.status, some.body.results]).toEqual([200, [{ name: "read" }]]);
});
