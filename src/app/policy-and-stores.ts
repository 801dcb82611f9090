/** The two things that a start waits for, opened beside each other: the check of policies, and the store. */
import type { LivePolicy } from "./live-policy.ts";
import type { OpenedStores } from "./stores.ts";

/**
 * Resolves with both, the revision in force kept in the ledger. Rejects with what is wrong with the policies, or else
 * with the store, and then nothing is open any more.
 */
export async function policyAndStores(
  openingPolicy: Promise<LivePolicy>,
  openingStores: Promise<OpenedStores>,
): Promise<readonly [LivePolicy, OpenedStores]> {
  const [policy, stores] = await Promise.allSettled([openingPolicy, openingStores]);
  if (policy.status === "rejected") {
    if (stores.status === "fulfilled") await stores.value.ledger.close();
    throw policy.reason;
  }
  if (stores.status === "rejected") {
    policy.value.release();
    throw stores.reason;
  }
  try {
    await policy.value.keepIn(stores.value.ledger);
  } catch (error) {
    policy.value.release();
    await stores.value.ledger.close();
    throw error;
  }
  return [policy.value, stores.value];
}
