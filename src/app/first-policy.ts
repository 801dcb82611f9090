/**
 * The first policies of a service. They are checked in a separate thread, started before the rest of the service is
 * loaded, so this module imports only what reading a directory needs.
 */
import * as fileSystem from "node:fs/promises";
import type { Config } from "../config/settings.ts";
import type { CheckedBundle } from "../policy/check/check.ts";
import { checkBundleInThread } from "../policy/check/check-thread.ts";
import { type PolicyReading, readPolicyDirectory } from "../policy/load/directory.ts";

export interface FirstPolicy {
  readonly reading: PolicyReading;
  /** Absent if the directory has no bundle that could be checked. */
  readonly checked?: CheckedBundle;
}

export type FirstPolicySettings = Pick<Config, "keyReferences" | "supportedProfiles"> & { readonly policyDir: string };

/** Reads the directory and checks its policies. Rejects if the checking thread fails. */
export async function readFirstPolicy(settings: FirstPolicySettings): Promise<FirstPolicy> {
  return await (await beginFirstPolicy(settings)).first;
}

/**
 * The same, but resolves when the checking thread has been started, so that further work in this thread does not delay
 * it. `first` rejects if it fails, and need not be awaited.
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
