/** Mistakes in the product's code, each of which a simulation must find: `[name, text of the file, what it becomes]`. */
import type { Mutation } from "./mutate.ts";

type Mistake = readonly [name: string, text: string, mistake: string, store?: Mutation["store"]];

// biome-ignore format: one mistake a line
const mistakes: Readonly<Record<Mutation["area"], Readonly<Record<string, readonly Mistake[]>>>> = {
  "append": {
    "ledger/append/sequence.ts": [
      ["reuse the newest index", "const firstLeafIndex = (head?.size ?? 0) + entries.length;", "const firstLeafIndex = (head === undefined ? 0 : head.size - 1) + entries.length;"],
      ["leave an index out", "const firstLeafIndex = (head?.size ?? 0) + entries.length;", "const firstLeafIndex = (head === undefined ? 0 : head.size + (head.size % 7 === 0 ? 1 : 0)) + entries.length;"],
      ["let time go back", "Math.max(nowMs, head?.lastRecordedAtMs ?? 0)", "nowMs"],
    ],
    "ledger/append/batch-plan.ts": [
      ["do not look for earlier calls", "if (known !== undefined) return { result: known };", ""],
      ["answer a twin that has another payload", "return isSame ? { position: twin, retried: true } : { result: \"conflict\" };", "return { position: twin, retried: isSame || true };"],
    ],
    "ledger/record/idempotency-record.ts": [
      ["take another payload for the same call", "if (kept.payloadDigest !== payloadDigest) return \"conflict\";", ""],
    ],
    "stores/sql/log-tools.ts": [
      ["write no tiles", "tiles.map(({ level, index, hashes }) => [tenantId, level, index, hashes])", "tiles.slice(tiles.length).map(({ level, index, hashes }) => [tenantId, level, index, hashes])"],
    ],
  },
  "outcomes": {
    "ledger/append/appender.ts": [
      ["answer with another batch's receipts", "return writesOf((at) => outcomes[at]);", "return writesOf((at) => outcomes.find((made) => \"results\" in made && made.results.length === shares[at]?.waiting.length) ?? outcomes[at]);"],
      ["refuse a whole share for one bad record", "if (waiting.length === 1) return refuse(waiting, refusalOf(error));", "if (waiting.length >= 1) return refuse(waiting, refusalOf(error));"],
      ["split a write of unknown outcome, and do it again", "if (!(error instanceof UnstorableError)) return refuse(waiting, storeFailure(error));", "if (!(error instanceof UnstorableError) && waiting.length === 1) return refuse(waiting, storeFailure(error));"],
    ],
    "stores/sqlite/queries.ts": [
      ["take a failed commit for one that was done", "      const result = await work();\n      connection.exec(\"COMMIT\");", "      const result = await work();\n      try { connection.exec(\"COMMIT\"); } catch { if (connection.isTransaction) connection.exec(\"ROLLBACK\"); }"],
    ],
    "stores/postgres/log-writer.ts": [
      ["publish a head that may not be durable", "return this.#tools.isConfirmed(head) ? head : this.confirm(head.tenantId);", "return head;"],
    ],
    "stores/postgres/open-ledger.ts": [
      ["take a key that may not be durable", "UPDATE store SET probed_at_ms = probed_at_ms WHERE singleton = 1", "SELECT 1 FROM store WHERE singleton = 1"],
    ],
    "stores/postgres/connection/connection.ts": [
      ["ignore the warning of a commit", "if (this.#notices !== before)", "if (this.#notices < before)"],
    ],
    "stores/postgres/connection/pool.ts": [
      ["do a commit of unknown outcome again", "throw new UnknownOutcomeError(\"The answer to a commit was lost.\", { cause });", "throw cause;"],
      ["take a failed commit for one that was done, on a server", "throw new UnknownOutcomeError(\"The answer to a commit was lost.\", { cause });", "return \"COMMIT\";"],
    ],
    "stores/sql/appending.ts": [
      ["answer again without a commit", ".filter(({ edge }) => edge === undefined)", ".filter(() => false)"],
    ],
    "stores/sqlite/errors.ts": [
      ["do an append of unknown outcome again", "return { kind: \"store\", message };\n}", "return { kind: \"data\", message };\n}"],
    ],
    "stores/sqlite/worker.ts": [
      ["keep a connection that failed", "if (failure.kind === \"store\" && !isBusy(error)) dropStore();", ""],
      ["end a shared transaction with its first failure", "if (calls.length > 1 && isOfOne(failure)) {", "if (calls.length < 1 && isOfOne(failure)) {"],
    ],
    "stores/sqlite/thread.ts": [
      ["forget those that wait for a dead thread", "for (const { reject } of this.#pending) reject(unavailable(cause));", ""],
    ],
  },
  "anchor and witnesses": {
    "stores/sqlite/writer.ts": [
      ["forget the anchor of a published head", "    this.#anchor.advance([head]);\n", ""],
    ],
    "stores/sql/log-tools.ts": [
      ["forget the anchor after an append", "this.anchor?.advance(logs);", ";"],
    ],
    "stores/sql/store-checks.ts": [
      ["never compare with the anchor", "if (anchored === undefined) return;", "if (anchored !== log) return;"],
    ],
    "ledger/witness/quorum.ts": [
      ["count one witness less", "let missing = this.#context.quorum;", "let missing = this.#context.quorum - 1;"],
    ],
    "ledger/witness/witnesses.ts": [
      ["answer where there is no quorum", "if (log.problem === undefined) throw error;", "if (log.problem === undefined) return;"],
      ["attach the cosignature of another tree", "(isTree(tree, { size, root }) ? [tree.line] : [])", "(tree !== undefined && root.length > 0 && size > 0 ? [tree.line] : [])"],
    ],
    "ledger/append/appender.ts": [
      ["do not wait for the witnesses", "await traced(span", "void traced(span"],
    ],
    "ledger/append/ledger.ts": [
      ["publish before the witnesses have cosigned", "await anchor?.confirm(head);", ""],
    ],
  },
  "keys": {
    "stores/sqlite/writer.ts": [
      ["publish under a retired key", "    await this.#requireNewest(signingKey);\n    if (head", "    if (head"],
    ],
    "stores/sql/key-ring.ts": [
      ["append under a retired key", "    this.#ring.follow(newest);\n", ""],
      ["sign on with the old key", "    this.#signer = new LogSigner(found);\n    this.#problem", "    this.#problem"],
    ],
    "stores/sqlite/open-ledger.ts": [
      ["rotate without a leaf", "if (keyPosition < keys.position)", "if (keyPosition < keys.position && tools === undefined)"],
    ],
    "ledger/tlog/signer.ts": [
      ["sign with the oldest key alone", "const [current, ...retiring] = this.#keys;", "const [current, ...retiring] = this.#keys.slice(-1);"],
    ],
    "stores/sql/log-tools.ts": [
      ["name the first key in new logs", "this.keys?.at(this.keys.position)", "this.keys?.at(0)"],
    ],
  },
  "erasure and caches": {
    "stores/sql/erasure.ts": [
      ["keep the opening of an erased record", "    queries.query(deleteOpenings, [tenantId, recordIds]),\n", ""],
      ["keep the answer of an erased record", "UPDATE kept_answers SET sealed = NULL", "UPDATE kept_answers SET sealed = sealed"],
      ["find an erased record by its terms", "    removeFromSegments(queries, tenantId, leaves),\n", ""],
      ["erase what is held", "  const hold = holdOn(recordId);\n  return hold === undefined", "  const hold = undefined as never;\n  return hold === undefined"],
    ],
    "stores/sql/idempotency-records.ts": [
      [
        "answer for an erased record that a backup brought back",
        "const stored = kept.isErased || isNoted(kept.recordId) ? { ...kept, opening: null } : kept;",
        "const stored = kept;",
      ],
    ],
    "stores/sql/log-rows.ts": [
      [
        "show an erased record that a backup brought back",
        'export const visibleOpening = openingIn("openings");',
        'export const visibleOpening = openingIn("/*main.*/openings").replace(/CASE .* END AS opening/, "opening");',
      ],
    ],
    "ledger/append/edge.ts": [
      ["believe an edge that is behind its head", "if (edge?.size === head.size) return edge;", "if (edge !== undefined) return edge;"],
    ],
  },
};

export const mutations: readonly Mutation[] = Object.entries(mistakes).flatMap(([area, files]) =>
  Object.entries(files).flatMap(([file, all]) =>
    all.map(([name, text, mistake, store]) => ({ name, area: area as Mutation["area"], file, text, mistake, store })),
  ),
);
