/** The three decision routes: what is answered, what is recorded, and in which order. */
import { expect, test } from "vitest";
import type { KeyAccessRequest, ProtectionPlanRequest } from "../../../src/domain/requests.ts";
import { createWorld, described, identity, sha256 } from "./world.ts";

const digest = `sha256:${sha256("content")}`;
const plan: ProtectionPlanRequest = { ...described, operation: "protect", content_digest: digest };
const key: KeyAccessRequest = { ...described, operation: "wrap", content_digest: digest };

test.each([
  ["wrap", "wrap"],
  ["unwrap", "unwrap"],
  ["rewrap", "rewrapKey"],
] as const)("policies see %s as %s", async (operation, action) => {
  const { keyAccess, engine } = createWorld();
  await keyAccess.plan(identity(), { ...key, operation, key_reference: "kms://k", artifact_profile: "tdf" });
  expect(engine.queries).toEqual([
    {
      caller: identity().caller,
      action,
      claimed: { ...described, content_digest_present: true, key_reference: "kms://k", artifact_profile: "tdf" },
    },
  ]);
});

test("policies see the claims of a plan, and no digest", async () => {
  const { protection, engine } = createWorld();
  const { content_digest: _, ...without } = plan;
  const request = { ...without, purpose: "p", content_size_bytes: 0, preferred_artifact_profile: "tdf" } as const;
  await protection.plan(identity(), request);
  const { operation, preferred_artifact_profile, ...claims } = request;
  expect(engine.queries[0]).toMatchObject({ action: operation });
  expect(engine.queries[0]?.claimed).toEqual({
    ...claims,
    artifact_profile: preferred_artifact_profile,
    content_digest_present: false,
  });
});

test.each([
  ["no digest", { content_digest: undefined }, {}, [/^content_digest is absent/]],
  ["odd digest", { content_digest: "sha256:short" }, {}, [/^content_digest is not hexadecimal/]],
  ["policy's own", {}, { warnings: ["mind the gap"] }, [/^mind the gap$/]],
  ["overridden profile", {}, { artifact_profile_overridden: true }, [/execution\.artifact_profile/]],
])("warning: %s", async (_name, change, given, expected) => {
  const { protection, keyAccess, engine } = createWorld();
  engine.answer = { guidance: given };
  const answers = [
    await protection.plan(identity(), { ...plan, ...change } as ProtectionPlanRequest),
    await keyAccess.plan(identity(), { ...key, ...change } as KeyAccessRequest),
  ];
  for (const { warnings } of answers) expect(warnings).toEqual(expected.map((text) => expect.stringMatching(text)));
});

test("scopes that a policy requires are added to the route's, each once", async () => {
  const { protection, engine } = createWorld();
  engine.answer = { guidance: { required_scopes: ["policy.read", "pii.read"] } };
  const { decision } = await protection.plan(identity(), plan);
  expect(decision.requiredScopes).toEqual(["platform-api.access", "policy.read", "pii.read"]);
});

test("values that bootstrap does not list are refused, member by member, and nothing is decided", async () => {
  const { protection, keyAccess, ledger, engine } = createWorld({
    supportedOperations: ["protect"],
    supportedProfiles: ["tdf"],
  });
  const fields = (...names: string[]) => ({
    reason: "invalid_request",
    details: { violations: names.map((field) => expect.objectContaining({ field })) },
  });
  const call = identity();
  const unlisted = { ...plan, operation: "access", preferred_artifact_profile: "envelope" } as const;
  await expect(protection.plan(call, unlisted)).rejects.toMatchObject(
    fields("operation", "preferred_artifact_profile"),
  );
  await expect(protection.resolve(call, { ...plan, operation: "rewrap" })).rejects.toMatchObject(fields("operation"));
  const asEnvelope = { ...key, artifact_profile: "envelope" } as const;
  await expect(keyAccess.plan(call, asEnvelope)).rejects.toMatchObject(fields("artifact_profile"));
  await expect(keyAccess.plan(call, { ...key, operation: "unwrap" })).rejects.toMatchObject(fields("operation"));
  await expect(keyAccess.plan(call, { ...key, operation: "rewrap" })).rejects.toMatchObject(fields("operation"));
  expect((await keyAccess.plan(call, key)).decision.allow).toBe(true);
  expect([ledger.appends, engine.queries.length]).toEqual([1, 1]);
});
