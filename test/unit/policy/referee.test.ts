import { afterEach, expect, test } from "vitest";
import type { PolicyDecision } from "../../../src/policy/engine/decision.ts";
import { PolicyHolder } from "../../../src/policy/engine/holder.ts";
import { PolicyReferee, type RefereeDisagreement } from "../../../src/policy/tools/referee.ts";
import { ask, engineOf, openFiles } from "./harness.ts";
import { handTimers } from "./timers.ts";

const guided = {
  ...openFiles,
  "default/eu.cedar":
    '@id("eu") @obligation("note; kind = claimed.resource.kind") permit (principal, action, resource) when { context.claimed has purpose && context.claimed.purpose like "a*" };',
};

let referee: PolicyReferee | undefined;
afterEach(() => referee?.release());

/** A referee that tells what it does, one word after the other. */
function told(engine: Parameters<PolicyReferee["follow"]>[0], share: number) {
  const words: (string | RefereeDisagreement)[] = [];
  let wake = () => {};
  const say = (word: string | RefereeDisagreement) => {
    words.push(word);
    wake();
  };
  const timers = handTimers();
  referee = new PolicyReferee({
    share,
    random: () => 0.5,
    timers,
    onAgreement: () => say("agrees"),
    onDisagreement: say,
    onDropped: () => say("dropped"),
    onFailure: ({ message }) => say(message),
  });
  referee.follow(engine);
  const until = async (count: number) => {
    timers.fire(1_000);
    while (words.length < count) await new Promise<void>((resolve) => (wake = resolve));
    return words;
  };
  return { referee, until, words, timers };
}

test("Cedar is asked about each set of deciding policies once, and about a share of all decisions", async () => {
  const engine = await engineOf(guided);
  const query = ask("protect", { purpose: "audit" });
  const { referee, until } = told(engine, 0);
  const decision = engine.decide({ ...query, understoodObligations: ["note"] });
  expect(decision.obligations).toHaveLength(1);
  for (let asked = 0; asked < 10; asked++) {
    referee.observe({ ...query, understoodObligations: ["note"] }, decision, "first");
    referee.observe(query, engine.decide(query), "second");
  }
  expect(await until(2)).toEqual(["agrees", "agrees"]);
  const often = told(engine, 0.6);
  for (let asked = 0; asked < 5; asked++) often.referee.observe(query, engine.decide(query), "all");
  expect(await often.until(5)).toEqual(["agrees", "agrees", "agrees", "agrees", "agrees"]);
  engine.release();
});

test("a thread that runs is asked sixteen questions together, and fewer after half a second", async () => {
  const engine = await engineOf(openFiles);
  const query = ask("access");
  const { referee, until, words, timers } = told(engine, 1);
  const observe = (count: number) => {
    for (let asked = 0; asked < count; asked++) referee.observe(query, engine.decide(query), `${asked}`);
  };
  observe(1);
  await until(1);
  observe(16);
  await until(17);
  observe(3);
  timers.fire(500);
  expect(await until(20)).toEqual(Array(20).fill("agrees"));
  expect(words).toHaveLength(20);
  engine.release();
});

test("a decision that Cedar would not make is named, and Cedar decides from then on", async () => {
  const engine = await engineOf(openFiles);
  const holder = new PolicyHolder(engine);
  const { referee, until } = told(engine, 0);
  const decided: PolicyDecision = { ...engine.decide(ask("access")), reasons: ["tenant/all"] };
  referee.observe(ask("access"), decided, "decision-1");
  const [found] = (await until(1)) as RefereeDisagreement[];
  expect(found).toMatchObject({ revision: engine.revision, tenantId: "tenant-a", decisionId: "decision-1", decided });
  expect(found?.cedar.reasons).toEqual(["platform/all", "tenant/all"]);
  holder.useCedar("another revision");
  holder.useCedar(engine.revision);
  expect(holder.decide(ask("access"))).toEqual(found?.cedar);
  holder.release();
});

test("what does not fit, and what cannot be asked, is told of, and delays nothing", async () => {
  const engine = await engineOf(openFiles);
  const { referee, until, timers } = told(engine, 1);
  const decision = engine.decide(ask("access"));
  for (let asked = 0; asked < 65; asked++) referee.observe(ask("access"), decision, `${asked}`);
  expect((await until(1))[0]).toBe("dropped");
  referee.observe(ask("access"), { ...decision, policyRevision: "of another set" }, "other");
  const failing = told(
    { contentBytes: new Uint8Array(Buffer.from("{}")), revision: engine.revision, setOf: () => "default" },
    1,
  );
  failing.referee.observe(ask("access"), decision, "one");
  expect((await failing.until(1))[0]).toMatch(/does not compile/);
  failing.referee.observe(ask("access"), decision, "two");
  expect(failing.words[1]).toBe("dropped");
  failing.timers.fire(60_000);
  failing.referee.observe(ask("access"), decision, "three");
  expect((await failing.until(3))[2]).toMatch(/does not compile/);
  failing.referee.release();
  timers.fire(10_000);
  engine.release();
});
