/** Of an answer, what may be changed without `ledger receipt verify` noticing: exactly what `docs/reference/ledger-formats.md` lists. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { answerDifferences } from "../../src/domain/lineage/answer-check.ts";
import type { StoredRecord } from "../../src/ledger/ports/record.ts";
import { findReceipt } from "../../src/ledger/record/receipt.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";

const gateway = await gatewayForFile();

/** Paths of all values that are no objects, but for those in the receipt, which is checked by itself. */
function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([name, inner]) => (name === "receipt" ? [] : pathsOf(inner, [...path, name])));
}

/** A copy whose value at the path is another; without it where that is undefined. */
function changed(value: unknown, [name, ...rest]: readonly string[], to: (value: unknown) => unknown): unknown {
  if (name === undefined) return to(value);
  const { [name]: inner, ...others } = value as Record<string, unknown>;
  const next = changed(inner, rest, to);
  return next === undefined ? others : { ...others, [name]: next };
}

function another(value: unknown): unknown {
  if (typeof value === "boolean") return !value;
  if (typeof value === "number") return value + 1;
  return Array.isArray(value) ? [...value, "another"] : `not ${String(value)}`;
}

/** What of the five answers changes unseen, and what may be missing unseen. */
async function unseen(): Promise<{ readonly changes: readonly string[]; readonly missing: readonly string[] }> {
  const [changes, missing] = [new Set<string>(), new Set<string>()];
  const token = await gateway.token();
  let decisionId: string | undefined;
  for (const { route, body: sent } of sampleCalls().filter(({ body }) => body !== undefined)) {
    for (const cited of [undefined, decisionId]) {
      const request =
        cited === undefined || !("artifact_digest" in (sent ?? {})) ? sent : { ...sent, decision_id: cited };
      const { status, body } = await rest(`${gateway.url}${route}`, { token, body: request });
      expect(status).toBe(200);
      decisionId ??= body.decision?.decision_id;
      const record: StoredRecord = JSON.parse(atob(findReceipt(body)?.record ?? ""));
      const differs = (answer: unknown) => answerDifferences(answer, record).length > 0;
      expect(differs(body)).toBe(false);
      for (const path of pathsOf(body)) {
        // On the routes that know retries two members of the caller are the retry's.
        const name = `${path[0] === "caller" && body.decision === undefined ? "(retries) " : ""}${path.join(".")}`;
        if (!differs(changed(body, path, another))) changes.add(name);
        if (!differs(changed(body, path, () => undefined))) missing.add(name);
      }
    }
  }
  return { changes: [...changes].sort(), missing: [...missing].sort() };
}

/** Names in backticks of the list that follows a sentence of the document. */
function listed(after: string): readonly string[] {
  const text = readFileSync(new URL("../../docs/reference/ledger-formats.md", import.meta.url), "utf8");
  const [, rest = ""] = text.split(after);
  const [list = ""] = rest.split("\n\n").filter((part) => part.trim() !== "");
  return [...list.matchAll(/`([^`]+\.[^`]+|service|warnings|platform_domains)`/g)].map(([, name = ""]) => name).sort();
}

test("the documents list what may change without notice, and every listed part is complete", async () => {
  const { changes, missing } = await unseen();
  expect(changes).toEqual(listed("These members of an answer may change unseen:"));
  expect(missing).toEqual([...changes, "status"].sort());
});
