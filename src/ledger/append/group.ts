/** Records that one durable commit carries, collected before it. */
import { ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { type Span, traced } from "../../base/trace.ts";
import type { Appended, RecordGroup, ShownOfRecord } from "../ports/ledger.ts";
import type { NewRecord } from "../ports/record.ts";
import type { Appender } from "./appender.ts";
import type { EncodedRecord } from "./encode.ts";

/** Records whose results are told in one turn of the event loop. */
const toldAtOnce = 64;

interface Member extends PromiseWithResolvers<Appended> {
  readonly encoded: EncodedRecord;
}

export class QueuedGroup implements RecordGroup {
  readonly #appender: Pick<Appender, "encode" | "appendTogether">;
  readonly #tenantId: TenantId;
  readonly #shown: ShownOfRecord;
  readonly #members: Member[] = [];

  constructor(appender: Pick<Appender, "encode" | "appendTogether">, tenantId: TenantId, shown: ShownOfRecord = "all") {
    this.#appender = appender;
    this.#tenantId = tenantId;
    this.#shown = shown;
  }

  add(place: number, record: NewRecord): Promise<Appended> {
    const encoded = { ...this.#appender.encode(record), shown: this.#shown };
    const member = { ...Promise.withResolvers<Appended>(), encoded };
    this.#members[place] = member;
    return member.promise;
  }

  async commit(span?: Span): Promise<void> {
    // Places whose records were refused are empty.
    const members = this.#members.filter((member) => member !== undefined);
    try {
      await traced(span, "ledger.append", (child) => this.#append(members, child));
    } catch (refusal) {
      for (const { promise, reject } of members) {
        promise.catch(() => {});
        reject(refusal);
      }
      throw refusal;
    }
  }

  async #append(members: readonly Member[], span: Span | undefined): Promise<void> {
    const records = members.map(({ encoded }) => encoded);
    const results = await Promise.allSettled(this.#appender.appendTogether(this.#tenantId, records, span));
    const failed = results.find((result) => result.status === "rejected" && !isOfRecord(result.reason));
    if (failed?.status === "rejected") throw failed.reason;
    for (const [i, { resolve, reject }] of members.entries()) {
      // What is made of each result takes its time too.
      if (i > 0 && i % toldAtOnce === 0) await new Promise(setImmediate);
      const result = results[i] as PromiseSettledResult<Appended>;
      if (result.status === "fulfilled") resolve(result.value);
      else reject(result.reason);
    }
  }
}

/** Whether a record was refused for its own sake: of a group that was not committed, none was. */
function isOfRecord(refusal: unknown): boolean {
  return refusal instanceof ServiceError && ofRecords.has(refusal.reason);
}

const ofRecords: ReadonlySet<string> = new Set(["idempotency_conflict", "internal", "invalid_request"]);
