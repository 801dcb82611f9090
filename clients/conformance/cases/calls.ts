/** Calls that work, and who both sides are. */
import assert from "node:assert/strict";
import { jsonOf } from "../calls.ts";
import { answered, assertWithin, type Case, call, counts, failed, noFaults } from "../check.ts";
import { type Route, routes } from "../protocol.ts";
import { requests, resultMembers } from "../requests.ts";

const results: Partial<Record<string, object>> = {
  decision: { allow: true },
  registration: { accepted: true },
  ingestion: { accepted: true },
};

export const calls: readonly Case[] = [
  ...routes.map((route: Route): Case => {
    const member = resultMembers[route];
    return {
      name: `calls/${route}`,
      says: "Sends the request as given, with a bearer token and the client certificate, and hands the answer out.",
      request: { steps: [call(route)] },
      answers: [answered({ caller: { tenantId: "tenant-a" }, ...(member && { [member]: results[member] ?? {} }) })],
      sees(seen) {
        noFaults(seen);
        counts(seen, 1);
        const [arrived] = seen.calls;
        assert.equal(arrived?.route, route);
        assert.ok(arrived.message !== undefined);
        assertWithin(requests[route], jsonOf(route, arrived.message), "request");
        assert.ok(arrived.certificate !== undefined);
      },
    };
  }),
  {
    name: "calls/no-identity-headers",
    says: "Sends no `x-svc-*` header but the one that chooses the receipt.",
    request: { steps: [call("protection-plan")] },
    answers: [answered()],
    sees({ calls: [arrived] }) {
      const own = Object.keys(arrived?.headers ?? {}).filter((name) => name.startsWith("x-svc-"));
      assert.deepEqual(
        own.filter((name) => name !== "x-svc-receipt"),
        [],
      );
    },
  },
  {
    name: "calls/without-certificate",
    says: "Without a certificate it calls all the same, and says that the service refuses: once, for it would again.",
    request: { steps: [call("whoami")], certificate: "none" },
    answers: [failed("unauthenticated", "proof_of_possession_failed")],
    sees: (seen) => counts(seen, 1),
  },
  {
    name: "calls/server-of-another-authority",
    says: "Does not speak to a server whose certificate is not of the authorities given.",
    request: { steps: [call("whoami")], trusts: "stranger", options: { max_attempts: 2 } },
    answers: [failed(["unavailable", "unauthenticated"])],
    sees: (seen) => counts(seen, 0, 0),
  },
  {
    name: "calls/server-of-another-name",
    says: "Does not speak to a server whose certificate is of another name.",
    request: { steps: [call("whoami")], host: "127.0.0.1", options: { max_attempts: 2 } },
    answers: [failed("unavailable")],
    sees: (seen) => assert.equal(seen.calls.length, 0),
  },
  {
    name: "calls/unknown-enum-and-fields",
    says: "Members and values of a newer service are ignored.",
    request: { steps: [call("bootstrap"), call("protection-plan")] },
    server: {
      acts: [
        { does: "answer", newer: true, change: { supportedOperations: ["PROTECTION_OPERATION_PROTECT", 99] } },
        { does: "answer", newer: true },
      ],
    },
    answers: [answered({ enforcementModel: "embedded_local_library" }), answered({ decision: { allow: true } })],
  },
];
