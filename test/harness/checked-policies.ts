/** Policy directories that gateways start with, each content checked once in a process: that takes most of a start. */
import * as fileSystem from "node:fs/promises";
import type { readFirstPolicy } from "../../src/app/first-policy.ts";
import type { CheckedBundle } from "../../src/policy/check/check.ts";
import { checkBundleInThread } from "../../src/policy/check/check-thread.ts";
import { readPolicyDirectory } from "../../src/policy/load/directory.ts";

const known = new Map<string, Promise<CheckedBundle>>();

export const checkedPolicies: typeof readFirstPolicy = async (settings) => {
  const reading = await readPolicyDirectory(settings.policyDir, fileSystem, settings);
  if (reading.bundle === undefined) return { reading };
  const content = JSON.stringify(reading.bundle);
  const checked = known.get(content) ?? checkBundleInThread(reading.bundle);
  known.set(content, checked);
  return { reading, checked: await checked };
};
