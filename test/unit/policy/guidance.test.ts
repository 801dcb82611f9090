import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { KeyReferenceRule } from "../../../src/base/vocabulary.ts";
import { ask, engineOf, openFiles } from "./harness.ts";

const manifest = openFiles["manifest.yaml"];

/** An open directory where the tenant's set also has the given permits, each with its annotations and condition. */
async function engineWith(permits: readonly (readonly [annotations: string, condition: string])[], more = "") {
  const texts = permits.map(
    ([annotations, condition], index) =>
      `@id("g${index}") ${annotations} permit (principal, action, resource) when { ${condition} };`,
  );
  return await engineOf({
    ...openFiles,
    "default/g.cedar": texts.join("\n") || "// none\n",
    "manifest.yaml": `${manifest}${more}`,
  });
}

/** How a key is transported, as guidance says it. */
const transportOf = (mode: string, origin: string, more: object = {}) => ({
  mode,
  key_material_origin: origin,
  raw_key_delivery_forbidden: true,
  stable_key_reference_preferred: false,
  ...more,
});

const always = "context.claimed.content_digest_present == context.claimed.content_digest_present";
const labelled = (label: string) => `context.claimed.labels.contains("${label}")`;

test("without annotations the defaults are given, by action", async () => {
  const engine = await engineWith([]);
  expect(engine.decide(ask("rewrapKey")).guidance).toEqual({
    handling_mode: "local_embedded_enforcement",
    enforcement_mode: "local_embedded_enforcement",
    local_enforcement_library: "sdk_embedded_library",
    artifact_profile: "envelope",
    artifact_profile_overridden: false,
    key_strategy: "local_content_key",
    authorization_strategy: "policy_decision",
    policy_resolution: "metadata_only_control_plane",
    send_only: ["artifact_digest", "artifact_profile", "decision_id", "key_reference"],
    bind_policy_to: ["artifact_digest", "content_digest"],
    required_actions: [],
    evidence_expected: ["rewrap"],
    required_scopes: [],
    warnings: [],
  });
  const events = { protect: "protect", access: "access", rewrap: "rewrap", wrap: "protect", unwrap: "access" } as const;
  for (const [action, event] of Object.entries(events)) {
    expect(engine.decide(ask(action as keyof typeof events)).guidance.evidence_expected).toEqual([event]);
  }
});

test("every annotation sets its member", async () => {
  const annotations = `@handling_mode("hm") @enforcement_mode("em") @local_enforcement_library("lib") @key_strategy("ks")
    @authorization_strategy("as") @artifact_profile("tdf") @send_only("purpose, artifact_cid") @bind_policy_to("resource_id")
    @required_actions("b, a") @evidence_expected("access") @required_scopes("s") @warning("careful, now")
    @key_transport("exchange_algorithm=X25519, origin=hsm, mode=kem_encapsulated_cek, public_key_distribution=jwks")`;
  const engine = await engineWith([[annotations, always]]);
  const decision = engine.decide(ask("protect", { artifact_profile: "envelope" }, { scopes: ["s"] }));
  expect(decision.reasons).toEqual(["platform/all", "tenant/all", "tenant/g0"]);
  expect(decision.guidance).toEqual({
    handling_mode: "hm",
    enforcement_mode: "em",
    local_enforcement_library: "lib",
    artifact_profile: "tdf",
    artifact_profile_overridden: true,
    key_strategy: "ks",
    authorization_strategy: "as",
    policy_resolution: "metadata_only_control_plane",
    key_transport: transportOf("kem_encapsulated_cek", "hsm", {
      public_key_distribution: "jwks",
      exchange_algorithm: "X25519",
    }),
    send_only: ["artifact_cid", "purpose"],
    bind_policy_to: ["resource_id"],
    required_actions: ["a", "b"],
    evidence_expected: ["access"],
    required_scopes: ["s"],
    warnings: ["careful, now"],
  });
});

test("the stricter profile wins, and lists are united", async () => {
  const engine = await engineWith([
    ['@artifact_profile("envelope") @required_actions("x, y")', labelled("a")],
    ['@artifact_profile("tdf") @required_actions("x, a")', labelled("b")],
    ['@artifact_profile("detached_signature")', labelled("c")],
  ]);
  const of = (...labels: string[]) => engine.decide(ask("protect", { labels })).guidance;
  expect([of("a").artifact_profile, of("c").artifact_profile]).toEqual(["envelope", "detached_signature"]);
  expect([of("a", "c").artifact_profile, of("c", "b", "a").artifact_profile]).toEqual(["envelope", "tdf"]);
  expect(of("a", "b").required_actions).toEqual(["a", "x", "y"]);
  expect(of().artifact_profile_overridden).toBe(false);
});

test("contradicting values without an order deny; with an order the stricter wins", async () => {
  const permits = [
    ['@enforcement_mode("soft")', labelled("a")],
    ['@enforcement_mode("hard") @required_actions("tell")', labelled("b")],
    ["", labelled("a")],
  ] as const;
  const query = ask("protect", { labels: ["a", "b"] });
  expect((await engineWith(permits)).decide(query)).toMatchObject({
    allow: false,
    reasons: ["platform/guidance-conflict", "tenant/g0", "tenant/g1"],
    guidance: { evidence_expected: ["deny"], enforcement_mode: "local_embedded_enforcement", required_actions: [] },
  });
  const ordered = await engineWith(permits, "strictness: { enforcement_mode: [soft, hard] }\n");
  expect(ordered.decide(query)).toMatchObject({ allow: true, guidance: { enforcement_mode: "hard" } });
});

const managed = transportOf("wrapped_key_reference", "kms", { stable_key_reference_preferred: true });

test("a policy's transport wins over the reference's, and none removes it", async () => {
  const engine = await engineWith([
    ['@key_transport("none")', labelled("none")],
    ['@key_transport("mode=local_provided, origin=caller")', labelled("local")],
  ]);
  const of = (label: string) => engine.decide(ask("wrap", { labels: [label], key_reference: "kms://k" })).guidance;
  expect(of("none")).not.toHaveProperty("key_transport");
  expect(of("local").key_transport).toEqual(transportOf("local_provided", "caller"));
  expect(of("local").key_strategy).toBe("local_content_key");
});

test("the manifest's defaults replace the service's; a profile's transport is for plans without a reference", async () => {
  const engine = await engineWith(
    [],
    `guidance:
  artifact_profile: tdf
  key_strategy: sealed
  bind_policy_to: resource_id, artifact_cid
  key_transport: { tdf: "mode=authorized_key_release, origin=vault" }
`,
  );
  const { guidance } = engine.decide(ask("protect"));
  expect(guidance).toMatchObject({
    artifact_profile: "tdf",
    key_strategy: "sealed",
    bind_policy_to: ["artifact_cid", "resource_id"],
  });
  expect(guidance.key_transport).toEqual(transportOf("authorized_key_release", "vault"));
  expect(engine.decide(ask("protect", { artifact_profile: "envelope" })).guidance).not.toHaveProperty("key_transport");
  expect(engine.decide(ask("wrap", { key_reference: "mine" })).guidance).not.toHaveProperty("key_transport");
});

const tdfKey = {
  url: "https://kas.example.com",
  kid: "r1",
  algorithm: "rsa:2048",
  attributeFqns: ["https://example.com/attr/a/value/b", "https://example.com/attr/c/value/d"],
} as const;

test("a TDF key comes with the transport: of a policy, of the profile, or of the reference", async () => {
  const text =
    "tdf_attribute_fqns=https://example.com/attr/a/value/b;https://example.com/attr/c/value/d, " +
    "mode=local_provided, origin=kas, tdf_url=https://kas.example.com, tdf_kid=r1, tdf_algorithm=rsa:2048";
  const { attributeFqns, ...named } = tdfKey;
  const transport = transportOf("local_provided", "kas", { tdf_key: { ...named, attribute_fqns: attributeFqns } });
  const annotated = await engineWith([[`@key_transport("${text}")`, labelled("x")]]);
  expect(annotated.decide(ask("protect", { labels: ["x"] })).guidance.key_transport).toEqual(transport);
  const ofProfile = await engineWith([], `guidance:\n  artifact_profile: tdf\n  key_transport: { tdf: "${text}" }\n`);
  expect(ofProfile.decide(ask("protect")).guidance.key_transport).toEqual(transport);
  const rule = { pattern: "kas://*", mode: "local_provided", origin: "kas", tdfKey } as const;
  const referenced = await engineOf(openFiles, { keyReferences: [rule] });
  expect(referenced.decide(ask("wrap", { key_reference: "kas://r1" })).guidance.key_transport).toEqual(transport);
  expect(referenced.decide(ask("wrap", { key_reference: "mine" })).guidance).not.toHaveProperty("key_transport");
});

test("a reference of another tenant denies, whatever the policies say", async () => {
  const keyReferences: readonly KeyReferenceRule[] = [
    { pattern: "kms://*", mode: "wrapped_key_reference", origin: "kms" },
    { pattern: "kms://b/*", mode: "wrapped_key_reference", origin: "kms", tenants: ["tenant-b" as TenantId] },
  ];
  const forbid = `@id("f") forbid (principal, action, resource) when { ${labelled("x")} };`;
  const engine = await engineOf({ ...openFiles, "default/f.cedar": forbid }, { keyReferences });
  const decide = (tenant: string, key_reference: string, labels: string[] = []) =>
    engine.decide(ask("unwrap", { key_reference, labels }, { tenantId: tenant as TenantId }));
  expect(decide("tenant-b", "kms://b/1").guidance.key_transport).toEqual(managed);
  expect(decide("tenant-a", "kms://a/1").guidance.key_transport).toEqual(managed);
  const denied = decide("tenant-a", "kms://b/1");
  expect(denied).toMatchObject({ allow: false, reasons: ["platform/key-reference-of-another-tenant"] });
  expect(denied.guidance).not.toHaveProperty("key_transport");
  expect(decide("tenant-a", "kms://b/1", ["x"]).reasons).toEqual([
    "platform/key-reference-of-another-tenant",
    "tenant/f",
  ]);
});
