import { expect, test } from "vitest";
import { livePlatform } from "../../../src/app/live-platform.ts";
import type { LivePolicy } from "../../../src/app/live-policy.ts";
import { issuerEntry } from "../../harness/issuer.ts";
import { identity } from "../domain/world.ts";

const { tenantId } = identity().caller;

function setUp() {
  const now = { issuerReady: true, writable: true, revision: "sha256:a", newest: "in_force" };
  const config = {
    authMode: "bearer_token",
    proofOfPossession: "mtls",
    oidcIssuer: "https://issuer.example",
    oidcAudience: "api://svc",
    keyReferences: ["a", "b"],
  };
  const entry = issuerEntry(config.oidcIssuer);
  const live = livePlatform(
    config as never,
    { issuerOf: () => ({ entry, issuerReady: now.issuerReady }) } as never,
    {
      engine: {
        get revision() {
          return now.revision;
        },
      },
      status: () => ({ newest: now.newest }),
    } as unknown as LivePolicy,
    {
      get writable() {
        return now.writable;
      },
    } as never,
  );
  return { now, live };
}

test("what is said of policy follows its revision and the newest set, and is the same object between changes", () => {
  const { now, live } = setUp();
  const reason = () => {
    const status = live.policy();
    expect(live.policy()).toBe(status);
    return status.reason;
  };
  expect(reason()).toBe("Policy revision sha256:a is in force.");
  now.revision = "sha256:b";
  expect(reason()).toBe("Policy revision sha256:b is in force.");
  now.newest = "refused";
  expect(reason()).toBe("Policy revision sha256:b is in force; a newer policy set was refused.");
  now.newest = "failed";
  expect(reason()).toBe("Policy revision sha256:b is in force; a newer policy set could not be taken yet.");
  now.newest = "in_force";
  expect(reason()).toBe("Policy revision sha256:b is in force.");
});

test("what is said of the store and the issuer follows them, and is the same object between changes", () => {
  const { now, live } = setUp();
  const [ledger, auth] = [live.ledger(), live.authConfiguration(tenantId)];
  expect([ledger.configured, auth.oidcIssuerReady]).toEqual([true, true]);
  now.writable = false;
  now.issuerReady = false;
  expect([live.ledger().configured, live.authConfiguration(tenantId).oidcIssuerReady]).toEqual([false, false]);
  now.writable = true;
  now.issuerReady = true;
  expect([live.ledger(), live.authConfiguration(tenantId)]).toEqual([ledger, auth]);
  expect(live.ledger()).toBe(ledger);
  expect(live.authConfiguration(tenantId)).toBe(auth);
  expect(live.managedKeyPatterns).toBe(2);
});
