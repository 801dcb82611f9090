import { expect, test } from "vitest";
import type { GoodPolicy } from "../../../src/app/live-policy.ts";
import { PolicyOffers, takePolicy } from "../../../src/app/workers/policy-offers.ts";
import { compareBundle } from "../../../src/policy/check/check.ts";
import { loadPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { type Files, memoryFileSystem, openFiles } from "../policy/harness.ts";

const policies = (number: number, tenant: string) =>
  Array.from(
    { length: number },
    (_, n) =>
      `@id("${tenant}-${n}") permit (principal, action, resource) when { context.claimed.resource.kind == "${n}" };`,
  ).join("\n");

const files: Files = {
  ...openFiles,
  "manifest.yaml": 'platform: platform\ntenants: { one: large, two: empty, "*": default }\n',
  "large/a.cedar": policies(130, "a"),
  "large/b.cedar": policies(120, "b"),
  "empty/none.cedar": "",
};

async function goodPolicy(): Promise<GoodPolicy> {
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files), {});
  if (bundle === undefined) throw new Error("the set is not good");
  return { bundle, checked: compareBundle(bundle) };
}

test("a policy that is taken by its parts is the one that was offered, and no policy is copied", async () => {
  const policy = await goodPolicy();
  const offers = new PolicyOffers();
  const [other, offer] = [
    offers.add({ ...policy, bundle: { ...policy.bundle, engine: "another" } }),
    offers.add(policy),
  ];
  const memories: unknown[] = [];
  const taken = await takePolicy(async (index) => {
    const part = structuredClone(offers.part(offer, index));
    if (part.checked?.policies !== undefined) memories.push(part.checked.policies.programs.bytes.buffer);
    return part;
  });
  expect(taken).toEqual(policy);
  expect(memories).toHaveLength(4);
  for (const memory of memories) expect(memory).toBeInstanceOf(SharedArrayBuffer);
  offers.end(offer);
  expect(() => offers.part(offer, 0)).toThrow(RangeError);
  expect(offers.part(other, 0)).toMatchObject({ bundle: { bundle: { engine: "another" } } });
});
