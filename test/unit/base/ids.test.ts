import fc from "fast-check";
import { v7 } from "uuid";
import { expect, test } from "vitest";
import { newRecordId, parseRecordId } from "../../../src/base/ids.ts";

test("record ids are as the library writes them, of the time and the randomness given", () => {
  const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 });
  fc.assert(
    fc.property(
      fc.maxSafeNat().filter((msecs) => msecs < 2 ** 48),
      bytes,
      (msecs, random) => {
        const id = newRecordId({ now: () => msecs }, (drawn) => {
          drawn.set(random);
          return drawn;
        });
        expect(id).toBe(v7({ msecs, random }));
        expect(parseRecordId(id)).toBe(id);
      },
    ),
  );
});
