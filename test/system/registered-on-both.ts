/** Artifacts that one of two replicas registers, and the other decides by, whichever versions they are. */
import { createHash } from "node:crypto";
import { expect } from "vitest";
import { findReceipt } from "../../src/ledger/record/receipt.ts";

export interface RegisteredOnBoth {
  /** Registers an artifact on each replica and decides by it on the other; and by all before, on both. */
  check(): Promise<void>;
  /** Records that it made so far. */
  readonly records: number;
}

/**
 * @param urls base URLs of the two replicas now
 * @param tokenOf makes a token of a tenant whose set is the sample `registered`, with such scopes besides
 */
export function registeredOnBoth(
  urls: readonly (string | undefined)[],
  tokenOf: (scopes: string) => string,
): RegisteredOnBoth {
  let records = 0;
  const registered: { readonly id: string; readonly recordId: unknown; readonly by: number }[] = [];

  const call = async (replica: number, route: string, body: object, scopes = "") => {
    const response = await fetch(`${urls[replica]}/v1/sdk/${route}`, {
      method: "POST",
      headers: { authorization: `Bearer ${tokenOf(scopes)}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    records++;
    return JSON.parse(text);
  };
  const described = (id: string) => ({ workload: { application: "payroll" }, resource: { kind: "record", id } });
  const named = (id: string) => ({ artifact_digest: `sha256:${createHash("sha256").update(id).digest("hex")}` });

  /** Cites a decision of the same replica. */
  const register = async (replica: number, id: string, labels: readonly string[]) => {
    const planned = { operation: "protect", preferred_artifact_profile: "tdf", ...described(id) };
    const { decision } = await call(replica, "protection-plan", planned);
    const { decision_id } = decision;
    const facts = { operation: "protect", artifact_profile: "tdf", key_reference: "kms://a/1", labels, decision_id };
    return findReceipt(await call(replica, "artifact-register", { ...facts, ...described(id), ...named(id) }))
      ?.record_id;
  };
  /** Reasons of a denial; of an allow the registrations that it relied on. */
  const open = async (replica: number, id: string, scopes = "") => {
    const body = { operation: "access", ...described(id), ...named(id) };
    const answer = await call(replica, "protection-plan", body, scopes);
    if (!answer.decision.allow) return answer.decision.reasons;
    const record = JSON.parse(Buffer.from(findReceipt(answer)?.record ?? "", "base64").toString("utf8"));
    return record.outcome.registered.map(({ record_id }: { record_id: unknown }) => record_id);
  };
  const restricted = ["tenant/restricted-stays-restricted"];

  return {
    get records() {
      return records;
    },
    async check() {
      for (const by of [0, 1]) {
        const id = `r-${registered.length}`;
        // Both have answered, and remember what they ruled.
        for (const replica of [0, 1]) expect(await open(replica, id)).toEqual(["tenant/unknown-artifacts-stay-closed"]);
        registered.push({ id, recordId: await register(by, id, ["restricted"]), by });
        expect(await open(1 - by, id)).toEqual(restricted);
      }
      for (const { id, recordId, by } of registered) {
        for (const replica of [1 - by, by]) {
          expect(await open(replica, id)).toEqual(restricted);
          expect(await open(replica, id, "restricted.read")).toContain(recordId);
        }
      }
      // Registered again where it was not registered first: the label stays.
      const { id, by } = registered.at(-1) as (typeof registered)[number];
      await register(1 - by, id, []);
      for (const replica of [by, 1 - by]) expect(await open(replica, id)).toEqual(restricted);
    },
  };
}
