/** The thread of `referee.ts`: one bundle, evaluated by Cedar alone, for a tenth of a processor's time at most. */
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { parentPort, workerData } from "node:worker_threads";
import { utf8Text } from "../../base/text-forms.ts";
import type { PolicyDecision, PolicyQuery } from "../engine/decision.ts";
import { compilePolicyBundle } from "../engine/engine.ts";
import { parseBundleContent } from "../load/bundle.ts";
import type { RefereeAnswer, RefereeAnswers, RefereeQuestions, RefereeStart } from "./referee-messages.ts";

const { contentBytes, revision } = workerData as RefereeStart;
const bundle = parseBundleContent(utf8Text(contentBytes), revision);
const { engine } = bundle === undefined ? {} : compilePolicyBundle(bundle, { evaluator: "cedar", cachedDecisions: 0 });
if (engine === undefined) throw new Error("the revision does not compile");
const decide = (query: PolicyQuery) => engine.decide(query);

/** A pause is so many times as long as what comes before it. */
const pauseTimes = 9;
const longestPauseMs = 1_000;

let before = Promise.resolve();

parentPort?.on("message", (questions: RefereeQuestions) => {
  before = before.then(() => judge(questions));
});

async function judge(questions: RefereeQuestions): Promise<void> {
  const beganMs = performance.now();
  const answers = questions.map(({ number, query, decision }): RefereeAnswer => {
    const cedar = decide(query);
    return { number, ...(isOther(cedar, decision) && { cedar }) };
  });
  parentPort?.postMessage(answers satisfies RefereeAnswers);
  await pause(Math.min(longestPauseMs, (performance.now() - beganMs) * pauseTimes));
}

/** Whether the decision is another than that of the JSON. The same code makes both, so that their texts are alike too. */
function isOther(decision: PolicyDecision, json: string): boolean {
  const own = JSON.stringify(decision);
  return own !== json && !isDeepStrictEqual(JSON.parse(own), JSON.parse(json));
}
