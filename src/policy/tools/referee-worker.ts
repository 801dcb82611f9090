/** The thread of `referee.ts`: one bundle, evaluated by Cedar alone, for a tenth of a processor's time at most. */
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { parentPort, workerData } from "node:worker_threads";
import { utf8Text } from "../../base/text-forms.ts";
import type { PolicyQuery } from "../engine/decision.ts";
import { compilePolicyBundle } from "../engine/engine.ts";
import { parseBundleContent } from "../load/bundle.ts";
import type { RefereeAnswer, RefereeQuestion, RefereeStart } from "./referee-messages.ts";

const { contentBytes, revision } = workerData as RefereeStart;
const bundle = parseBundleContent(utf8Text(contentBytes), revision);
const { engine } = bundle === undefined ? {} : compilePolicyBundle(bundle, { evaluator: "cedar", cachedDecisions: 0 });
if (engine === undefined) throw new Error("the revision does not compile");
const decide = (query: PolicyQuery) => engine.decide(query);

/** A pause is so many times as long as what comes before it. */
const pauseTimes = 9;
const longestPauseMs = 1_000;

let before = Promise.resolve();

parentPort?.on("message", (question: RefereeQuestion) => {
  before = before.then(() => judge(question));
});

async function judge({ number, query, decision }: RefereeQuestion): Promise<void> {
  const beganMs = performance.now();
  // The decision came as a copy, too.
  const cedar = structuredClone(decide(query));
  const answer: RefereeAnswer = { number, ...(!isDeepStrictEqual(cedar, decision) && { cedar }) };
  parentPort?.postMessage(answer);
  await pause(Math.min(longestPauseMs, (performance.now() - beganMs) * pauseTimes));
}
