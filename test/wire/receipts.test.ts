/**
 * Receipts as callers get them: they verify with the trusted key alone, on every protocol, and retries repeat them. Of an
 * answer, what may be changed without `ledger receipt verify` noticing is what `docs/reference/ledger-formats.md` lists.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { answerDifferences } from "../../src/domain/lineage/answer-check.ts";
import { type GivenReceipt, verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { type NoteVerifier, parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { answerOf, type WireClient, wireClients } from "../harness/clients.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { logKeyOf, recordIn } from "../harness/ledger.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { run } from "../unit/cli/surroundings.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();
const keyFile = join(gateway.dataDir, "ledger.key");

const members = {
  "protection-plan": "decision",
  "policy-resolve": "decision",
  "key-access-plan": "decision",
  "artifact-register": "registration",
  evidence: "ingestion",
} as const;
type Route = keyof typeof members;
const routes = Object.keys(members) as Route[];

const sample = (route: Route) => sampleCalls().find((call) => call.route.endsWith(route))?.body;

async function ask(route: Route, headers: Record<string, string> = {}, body: unknown = sample(route)) {
  const answer = await rest(`${gateway.url}/v1/sdk/${route}`, { token, body, headers });
  return { ...answer, receipt: answer.body[members[route]]?.receipt as GivenReceipt | undefined };
}

/** What a verifier trusts: the key that the operator publishes, under the name of the log. */
function trusted({ log_origin }: Pick<GivenReceipt, "log_origin">): NoteVerifier {
  const verifier = parseVerifierKey(logKeyOf(keyFile, log_origin));
  if (verifier === undefined) throw new Error("no key");
  return verifier;
}

const given = (receipt: GivenReceipt | undefined): GivenReceipt => {
  if (receipt === undefined) throw new Error("no receipt");
  return receipt;
};

describe.each(routes)("%s", (route) => {
  test("carries a receipt of its record, beside which no member can be added to the answer or to that part of it", async () => {
    const { body, receipt } = await ask(route);
    const { record, leafIndex } = verifyReceipt(given(receipt), trusted(given(receipt)));
    if (record === undefined) throw new Error("no record");
    expect(leafIndex).toBeGreaterThan(0);
    expect(record).toMatchObject({ route: `/v1/sdk/${route}`, tenant_id: body.caller.tenant_id });
    if (members[route] === "decision") expect(body.decision.decision_id).toBe(receipt?.record_id);
    expect(answerDifferences(body[members[route]], record)).toEqual([]);
    const foreign = members[route] === "registration" ? "ingestion" : "registration";
    expect(answerDifferences({ ...body, [foreign]: { accepted: true } }, record)).toEqual([foreign]);
    // Beside the members that a receipt proves, a whole answer that says something else.
    const part = body[members[route]];
    const doctored = { ...part, caller: body.caller, [members[route]]: { ...part, allow: !part.allow } };
    expect(answerDifferences(doctored, record)).toEqual(["caller", members[route]]);
    expect(answerDifferences(body, { ...record, kind: "erasure", route: "ledger erase" })).toEqual(["receipt"]);
    const { purpose: _, ...silent } = record.request as Record<string, unknown>;
    const without = { ...record, request: silent as typeof record.request };
    expect(answerDifferences(body, without)).toEqual(["request_summary.purpose"]);
    if (body.execution === undefined) return;
    const execution = { ...body.execution, key_transport: { mode: "authorized_key_release" } };
    expect(answerDifferences({ ...body, execution }, record)).toEqual(["execution.key_transport"]);
  });

  test("has a COSE receipt beside the full one, if the caller asks for it", async () => {
    const { body, receipt } = await ask(route, { "x-svc-receipt": "cose" });
    const { record } = verifyReceipt(given(receipt), trusted(given(receipt)));
    if (record === undefined) throw new Error("no record");
    expect(answerDifferences(body, record)).toEqual([]);
    const { cose, ...full } = given(receipt);
    expect(Object.keys(full)).toEqual(Object.keys(given((await ask(route)).receipt)));
    // A tagged COSE_Sign1, whose protected header names the log and its size: system/cose-receipts verifies it.
    const bytes = Buffer.from(cose ?? "", "base64");
    expect([bytes[0], bytes.includes(full.log_origin), bytes.includes(`${full.tree_size}`)]).toEqual([
      0xd2,
      true,
      true,
    ]);
  });
});

/** Paths of all values that are no objects, but for those in the receipt, which is checked by itself. */
function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([name, inner]) => (name === "receipt" ? [] : pathsOf(inner, [...path, name])));
}

/** A copy whose value at the path is another; without it where that is undefined. */
function changed(value: unknown, [name, ...rest]: readonly string[], to: (value: unknown) => unknown): unknown {
  if (name === undefined) return to(value);
  const { [name]: inner, ...others } = value as Record<string, unknown>;
  const next = changed(inner, rest, to);
  return next === undefined ? others : { ...others, [name]: next };
}

function another(value: unknown): unknown {
  if (typeof value === "boolean") return !value;
  if (typeof value === "number") return value + 1;
  return Array.isArray(value) ? [...value, "another"] : `not ${String(value)}`;
}

/** What of the five answers changes unseen, and what may be missing unseen. */
async function unseen() {
  const [changes, missing] = [new Set<string>(), new Set<string>()];
  let decisionId: string | undefined;
  for (const { route, body: sent } of sampleCalls().filter(({ body }) => body !== undefined)) {
    for (const cited of [undefined, decisionId]) {
      const request =
        cited === undefined || !("artifact_digest" in (sent ?? {})) ? sent : { ...sent, decision_id: cited };
      const { status, body } = await rest(`${gateway.url}${route}`, { token, body: request });
      expect(status).toBe(200);
      decisionId ??= body.decision?.decision_id;
      const record = recordIn(body);
      const differs = (answer: unknown) => answerDifferences(answer, record).length > 0;
      expect(differs(body)).toBe(false);
      for (const path of pathsOf(body)) {
        // On the routes that know retries two members of the caller are the retry's.
        const name = `${path[0] === "caller" && body.decision === undefined ? "(retries) " : ""}${path.join(".")}`;
        if (!differs(changed(body, path, another))) changes.add(name);
        if (!differs(changed(body, path, () => undefined))) missing.add(name);
      }
    }
  }
  return { changes: [...changes].sort(), missing: [...missing].sort() };
}

/** Names in backticks of the list that follows a sentence of the document. */
function listed(after: string): readonly string[] {
  const text = readFileSync(new URL("../../docs/reference/ledger-formats.md", import.meta.url), "utf8");
  const [, rest = ""] = text.split(after);
  const [list = ""] = rest.split("\n\n").filter((part) => part.trim() !== "");
  return [...list.matchAll(/`([^`]+\.[^`]+|service|warnings|platform_domains)`/g)].map(([, name = ""]) => name).sort();
}

test("the documents list what may change without notice, and every listed part is complete", async () => {
  const { changes, missing } = await unseen();
  expect(changes).toEqual(listed("These members of an answer may change unseen:"));
  expect(missing).toEqual([...changes, "status"].sort());
});

test.each(["", "Brief", "all", "brief, none"])("a receipt header of %j is refused, and not repeated", async (value) => {
  const { status, body } = await ask("evidence", { "x-svc-receipt": value });
  expect(status).toBe(400);
  expect(body.error).toMatchObject({
    reason: "invalid_request",
    message: "header x-svc-receipt must be full, brief, cose or none",
  });
});

test("the command checks the answer too, and reports if it cannot", async () => {
  const { body, receipt } = await ask("protection-plan");
  const vkey = logKeyOf(keyFile, given(receipt).log_origin);
  const verify = async (content: unknown, text = JSON.stringify(content)) => {
    const file = join(gateway.dataDir, "answer.json");
    writeFileSync(file, text);
    return run("ledger", "receipt", "verify", file, "--key", vkey);
  };
  expect(await verify(body)).toMatchObject({ code: 0, out: expect.stringContaining("the answer says the same") });
  expect(await verify(receipt)).toMatchObject({
    code: 0,
    out: expect.stringContaining("only the receipt was checked"),
  });
  const { leaf: _, opening: __, record: ___, ...brief } = given(receipt);
  expect(await verify(brief)).toMatchObject({ code: 0, out: expect.stringContaining("position only") });
  const unproven = { ...body, decision: { ...body.decision, allow: !body.decision.allow, receipt: brief } };
  expect(await verify(unproven)).toMatchObject({
    code: 1,
    out: expect.stringContaining("position only"),
    err: "receipt is brief: the answer was not compared with its record\n",
  });
  const twice = JSON.stringify(body).replace('"allow":', `"allow":${!body.decision.allow},"allow":`);
  expect(await verify(undefined, twice)).toMatchObject({
    code: 1,
    err: expect.stringContaining("has an object with two members of the same name"),
  });
  const doctored = { ...body, decision: { ...body.decision, allow: !body.decision.allow, policy_revision: "x" } };
  expect(await verify(doctored)).toEqual({
    code: 1,
    out: "",
    err:
      "the answer's decision.allow is not what its record says\n" +
      "the answer's decision.policy_revision is not what its record says\n",
  });
});

test("one key on six clients of four protocols is one record, with one receipt that verifies", async () => {
  const clients = wireClients(gateway.url);
  const method = methodOn("/v1/sdk/evidence");
  const request = requestFromRest(method, sample("evidence"));
  const headers = { authorization: `Bearer ${token}`, "idempotency-key": "every-protocol" };
  const call = async (client: WireClient, detail: string) => {
    const answer = answerOf(await client.call(method, request, { ...headers, "x-svc-receipt": detail }));
    return answer.ingestion.receipt;
  };
  const full = await Promise.all(clients.map((client) => call(client, "full")));
  for (const receipt of full) expect(receipt).toEqual(full[0]);
  verifyReceipt(full[0], trusted(full[0]));
  const { leaf: _, opening: __, record: ___, ...brief } = full[0];
  const cose = await Promise.all(clients.map((client) => call(client, "cose")));
  for (const receipt of cose) expect(receipt).toEqual({ ...full[0], cose: cose[0].cose });
  verifyReceipt(cose[0], trusted(cose[0]));
  for (const client of clients) {
    expect(await call(client, "brief"), client.name).toEqual(brief);
    expect(await call(client, "none"), client.name).toBeUndefined();
  }
});

describe("with an idempotency key", () => {
  const event = () => sample("evidence");

  test("a locator with new credentials is the same payload; another place, or no locator, is another", async () => {
    const register = (artifact_locator: string | undefined) =>
      ask(
        "artifact-register",
        { "idempotency-key": "signed-url" },
        { ...sample("artifact-register"), artifact_locator },
      );
    const first = await register("https://user:old@store.example/o?X-Signature=1");
    for (const locator of ["https://store.example/o?X-Signature=2", "https://user:new@store.example/o#3"])
      expect((await register(locator)).body).toEqual(first.body);
    for (const locator of ["https://store.example/p?X-Signature=1", "?X-Signature=1", undefined])
      expect((await register(locator)).status).toBe(409);
  });

  test("another payload is a conflict; another route, key or principal is another call", async () => {
    const key = { "idempotency-key": "conflict" };
    const first = await ask("evidence", key);
    const other = await ask("evidence", key, { ...event(), outcome: "another" });
    expect(other).toMatchObject({
      status: 409,
      body: { error: { code: "already_exists", reason: "idempotency_conflict" } },
    });
    expect((await ask("artifact-register", key)).status).toBe(200);
    const next = await ask("evidence", { "idempotency-key": "conflict2" });
    expect(next.receipt?.record_id).not.toBe(first.receipt?.record_id);
  });

  test.each(["", "with space", "é", "x".repeat(129)])("the key %j is refused", async (key) => {
    const answer = await ask("evidence", { "idempotency-key": key }).catch(() => undefined);
    // What HTTP itself cannot carry, the client refuses.
    if (answer !== undefined)
      expect(answer).toMatchObject({ status: 400, body: { error: { reason: "invalid_request" } } });
  });
});
