/** A tenant checks, with its own token and the key that it trusts, that two of its receipts are of one log. */
import { continues, verifyReceipt } from "svc-platform-client/receipts";

type Receipt = Parameters<typeof verifyReceipt>[0];

/**
 * Whether the log of the later receipt contains everything in the log of the earlier one. Rejects if a receipt does not
 * verify, or if the operator listener refuses.
 *
 * @param opsUrl base URL of the operator listener
 * @param verifierKey verifier key of the log (C2SP signed-note), from a source you trust
 */
export async function sameLog(
  opsUrl: string,
  token: string,
  verifierKey: string,
  earlier: Receipt,
  later: Receipt,
): Promise<boolean> {
  const [first, second] = await Promise.all([verifyReceipt(earlier, verifierKey), verifyReceipt(later, verifierKey)]);
  const log = earlier.logOrigin.slice(earlier.logOrigin.lastIndexOf("/") + 1);
  const url = `${opsUrl}/ledger/${log}/consistency?from=${first.treeSize}&to=${second.treeSize}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`the operator listener answers ${response.status}`);
  return continues(first, second, await response.text());
}
