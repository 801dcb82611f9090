/** Certificate files that are replaced while the client runs: some clients take them up, the others say so. */
import assert from "node:assert/strict";
import { answered, type Case, call, counts, noFaults } from "../check.ts";

const replaced = { does: "answer", afterwards: "new-certificate" } as const;
const whoami = call("whoami");
const later = call("whoami", { pause_ms: 1_500 });

export const certificates: readonly Case[] = [
  {
    name: "certificates/replaced",
    says: "Calls from then on are made with the new certificate, and with a token that is bound to it (RFC 8705 §3).",
    request: { steps: [whoami, later, whoami] },
    server: { acts: [replaced] },
    answers: [answered(), answered(), answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3, 2);
      const [first, second, third] = seen.calls;
      const [before, after] = seen.tokenRequests;
      assert.notEqual(second?.certificate, first?.certificate);
      assert.equal(third?.certificate, second?.certificate);
      assert.notEqual(second?.token, first?.token);
      assert.deepEqual([before?.certificate, after?.certificate], [first?.certificate, second?.certificate]);
    },
  },
  {
    name: "certificates/replaced-tls-client-auth",
    says: "A client that authenticates by its certificate does so with the new one (RFC 8705 §2.1).",
    request: { steps: [whoami, later], token: "certificate" },
    server: { acts: [replaced] },
    answers: [answered(), answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 2, 2);
      assert.notEqual(seen.tokenRequests[1]?.certificate, seen.tokenRequests[0]?.certificate);
    },
  },
];
