import { expect, test } from "vitest";
import { systemTimers, type Timers } from "../../../src/base/timers.ts";
import { runTrial, type TrialSource } from "../../../src/domain/playground.ts";

import { fileSystemOf, readPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { bundleContent } from "../policy/harness.ts";

const files = {
  "manifest.yaml": 'platform: platform\ntenants: { "*": platform }\nguidance: {}\n',
  "platform/all.cedar": '@id("all")\nforbid (principal, action, resource);\n',
};
const nothing: TrialSource = { search: async () => ({ found: [], size: 0 }), find: async () => "unknown" };

async function trial(timers: Timers, signal = new AbortController().signal) {
  const { bundle, problems } = await readPolicyDirectory("/", fileSystemOf(files));
  if (bundle === undefined) throw new Error(JSON.stringify(problems));
  const inForce = Buffer.from(bundleContent(bundle));
  return runTrial({ inForce, draft: { files, questions: "" }, settings: {} }, undefined, nothing, timers, signal);
}

test("a draft that takes too long is stopped, with the reason", async () => {
  const delays: number[] = [];
  const over: Timers = {
    after(delayMs, action) {
      delays.push(delayMs);
      action();
      return () => {};
    },
  };
  await expect(trial(over)).rejects.toMatchObject({ reason: "invalid_request", message: /longer than 30 s/ });
  expect(delays).toEqual([30_000]);
});

test("a draft of a viewer who left is stopped", async () => {
  const leaving = new AbortController();
  const running = trial(systemTimers, leaving.signal);
  leaving.abort(new Error("left"));
  await expect(running).rejects.toThrow("left");
});
