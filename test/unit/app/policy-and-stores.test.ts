import { expect, test } from "vitest";
import { policyAndStores } from "../../../src/app/app.ts";
import type { LivePolicy } from "../../../src/app/live-policy.ts";
import type { OpenedStores } from "../../../src/app/stores.ts";

/** Both, as far as they are used here, and what was done to them, in order. */
function opened(keep: () => Promise<void> = async () => {}) {
  const done: string[] = [];
  const keepIn = async () => {
    done.push("keep");
    await keep();
  };
  const policy = { keepIn, release: () => void done.push("release") } as unknown as LivePolicy;
  const stores = { ledger: { close: async () => void done.push("close") } } as unknown as OpenedStores;
  return { policy, stores, done };
}

test("both are open, and the revision is kept", async () => {
  const { policy, stores, done } = opened();
  expect(await policyAndStores(Promise.resolve(policy), Promise.resolve(stores))).toEqual([policy, stores]);
  expect(done).toEqual(["keep"]);
});

test.each([
  ["the policies are refused", "policy", ["close"]],
  ["the store cannot be opened", "stores", ["release"]],
  ["neither is good", "both", []],
  ["the revision cannot be kept", "keep", ["keep", "release", "close"]],
])("nothing stays open where %s", async (_what, wrong, expected) => {
  const refuse = (what: string) => (wrong === what || wrong === "both" ? Promise.reject(new Error(what)) : undefined);
  const { policy, stores, done } = opened(() => refuse("keep") ?? Promise.resolve());
  const opening = policyAndStores(
    refuse("policy") ?? Promise.resolve(policy),
    refuse("stores") ?? Promise.resolve(stores),
  );
  await expect(opening).rejects.toThrow(wrong === "both" ? "policy" : wrong);
  expect(done).toEqual(expected);
});
