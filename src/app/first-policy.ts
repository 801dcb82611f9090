/**
 * The policies that a service starts with. They are checked in a thread of their own, so that they are asked for before
 * anything else of the service is even loaded: this imports no more than it takes to read a directory.
 */
import * as fileSystem from "node:fs/promises";
import type { Config } from "../config/settings.ts";
import type { ComparedBundle } from "../policy/check/check.ts";
import { checkBundleInThread } from "../policy/check/check-thread.ts";
import { type PolicyReading, readPolicyDirectory } from "../policy/load/directory.ts";

export interface FirstPolicy {
  readonly reading: PolicyReading;
  /** Absent where the directory has no bundle that could be checked. */
  readonly checked?: ComparedBundle;
}

export type FirstPolicySettings = Pick<Config, "keyReferences" | "supportedProfiles"> & { readonly policyDir: string };

/** Reads the directory and checks what it holds. Rejects where the thread that checks fails. */
export async function readFirstPolicy(settings: FirstPolicySettings): Promise<FirstPolicy> {
  return await (await beginFirstPolicy(settings)).first;
}

/**
 * The same, which resolves when the thread that checks has been started: what keeps this one busy from then on does not
 * keep that one waiting. `first` rejects where it fails, and need not be waited for.
 */
export async function beginFirstPolicy(
  settings: FirstPolicySettings,
): Promise<{ readonly first: Promise<FirstPolicy> }> {
  const reading = await readPolicyDirectory(settings.policyDir, fileSystem, settings);
  if (reading.bundle === undefined) return { first: Promise.resolve({ reading }) };
  const first = checkBundleInThread(reading.bundle).then((checked) => ({ reading, checked }));
  first.catch(() => {});
  return { first };
}
