import type { BulkLedger } from "../../../src/domain/bulk.ts";
import type { RecordGroup } from "../../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { FakeLedger } from "./world.ts";

/** A ledger whose groups commit into memory. */
export class GroupingLedger extends FakeLedger implements BulkLedger {
  override group(): RecordGroup {
    const added: (readonly [NewRecord, PromiseWithResolvers<Awaited<ReturnType<FakeLedger["append"]>>>])[] = [];
    return {
      enter: () => undefined,
      leave: () => {},
      add(_place, record) {
        const result = Promise.withResolvers<Awaited<ReturnType<FakeLedger["append"]>>>();
        added.push([record, result]);
        return result.promise;
      },
      commit: async () => {
        for (const [record, { resolve }] of added) resolve(await this.append(record));
      },
    };
  }
}
