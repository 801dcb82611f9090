import { expect, test } from "vitest";
import { type Files, openFiles, permitAll, problemsOf } from "./harness.ts";

const all = (text: string) => ({ "default/all.cedar": text });
const when = (condition: string, effect = "permit") =>
  all(`@id("a") ${effect} (principal, action, resource) when { ${condition} };`);
const annotated = (annotation: string) => ({
  "default/b.cedar": `@id("b") ${annotation} permit (principal, action, resource);`,
});
/** How a key of a key access service is transported, and more. */
const transported = (more: string) => annotated(`@key_transport("mode=local_provided, origin=kas, ${more}")`);
/** The open directory's manifest with more tenants. */
const tenants = (more: string) => ({ "manifest.yaml": `platform: platform\ntenants: { "*": default, ${more} }` });
/** The open directory's manifest and more. */
const manifest = (more: string) => ({
  "manifest.yaml": `platform: platform\ntenants: { "*": default }\n${more}`,
});

/** What is laid over the open directory (null removes), and the one problem that must be named. */
const table: readonly (readonly [change: Readonly<Record<string, string | Uint8Array | null>>, problem: RegExp])[] = [
  [
    all(`${permitAll}\n\n@id("b")\npermit (principal, action resource);`),
    /^default\/all\.cedar:4: unexpected token `resource` \(expected .*`,`/,
  ],
  [
    all(`@id("a")\n@description("é€😀😀😀😀😀😀😀😀")\npermit (principal,\naction resource);`),
    /^default\/all\.cedar:4: unexpected token `resource`/,
  ],
  [all(`${permitAll} permit (principal, action, resource)`), /^default\/all\.cedar:1: unexpected end of input/],
  [
    all('@id("a")\npermit (principal, action, resource)\nwhen { context.claimd.purpose == "x" };'),
    /^default\/all\.cedar:3: a: attribute `claimd` in context not found \(did you mean `claimed`\?\)$/,
  ],
  [when("false", "forbid"), /^default\/all\.cedar:1: a: policy is impossible/],
  [when('context.claimed.labels.contains("s\u0430y")'), /contains mixed scripts/],
  [
    all('@id("a") forbid (principal == Principal::"bob", action, resource);'),
    /^default\/all\.cedar:1: no principal has the id "bob" \(write Principal::"<tenant>\/<principal>"\)$/,
  ],
  [
    all('@id("a") permit (principal, action, resource) unless { principal == Principal::"/bob" };'),
    /no principal has the id "\/bob"/,
  ],
  [all("// c\n\npermit (principal, action, resource);"), /^default\/all\.cedar:3: the policy has no @id/],
  [all("@id permit (principal, action, resource);"), /the policy has no @id/],
  [all('@id("A b") permit (principal, action, resource);'), /@id\("A b"\) cannot be used \(lowercase/],
  [
    { "platform/all.cedar": '@id("evaluation-error") permit (principal, action, resource);' },
    /@id\("evaluation-error"\) cannot be used/,
  ],
  [all(`${permitAll}\n${permitAll}`), /^default\/all\.cedar:2: the id all is taken by line 1 of default\/all\.cedar/],
  [{ "default/b.cedar": permitAll }, /^default\/b\.cedar:1: the id all is taken by line 1 of default\/all\.cedar/],
  [all('@id("a") @id("b") permit (principal, action, resource);'), /duplicate annotation: @id/],
  [
    all('@id("a")\n@handlingmode("x") permit (principal, action, resource);'),
    /^default\/all\.cedar:1: unknown annotation @handlingmode; known: id, description, handling_mode/,
  ],
  [
    { "default/b.cedar": '@id("b") @artifact_profile("tdf") forbid (principal, action, resource);' },
    /@artifact_profile guides what is allowed; a forbid may carry required_actions, warning/,
  ],
  [annotated("@handling_mode"), /@handling_mode must be one word/],
  [annotated('@artifact_profile("zip")'), /@artifact_profile must be one of tdf, envelope, detached_signature/],
  [
    annotated('@evidence_expected("protect, deny")'),
    /@evidence_expected must be a comma-separated list of protect access rewrap/,
  ],
  [annotated('@send_only("plaintext")'), /@send_only must be a comma-separated list of artifact_cid/],
  [annotated('@bind_policy_to("artifact_digest,")'), /@bind_policy_to must be a comma-separated list/],
  [annotated('@required_scopes("a b")'), /@required_scopes must be a comma-separated list of scopes/],
  [annotated('@required_actions("Call me")'), /@required_actions must be/],
  [annotated('@warning("a\\nb")'), /@warning must be one line/],
  [annotated('@key_transport("mode=wrapped_key_reference")'), /@key_transport must name the origin/],
  [
    transported("tdf_url=https://kas, tdf_algorithm=rsa:2048"),
    /@key_transport must name tdf_url, an http\(s\) URL, and tdf_kid/,
  ],
  [
    transported("tdf_url=https://kas, tdf_kid=r, tdf_algorithm=rsa"),
    /@key_transport must have a tdf_algorithm of rsa:2048/,
  ],
  [
    transported("tdf_url=https://kas, tdf_kid=r, tdf_algorithm=rsa:2048, tdf_attribute_fqns=a"),
    /@key_transport must have tdf_attribute_fqns of the form/,
  ],
  [annotated('@key_transport("mode=raw, origin=kms")'), /@key_transport must have a mode of local_provided/],
  [
    {
      "default/all.cedar":
        '@id("a") @key_strategy("one") permit (principal, action in Action::"dataOperation", resource);',
      "platform/all.cedar": `${permitAll}\n@id("b") @key_strategy("two") permit (principal, action == Action::"access", resource is Resource);`,
    },
    /^default\/all\.cedar:1: @key_strategy differs between policies that always decide access: b in platform\/all\.cedar, a in default\/all\.cedar/,
  ],
  [
    {
      "manifest.yaml": 'platform: platform\ntenants: { "*": default }\nstrictness: { handling_mode: [weak, strong] }',
      "default/b.cedar": '@id("b") @handling_mode("odd") permit (principal, action, resource);',
    },
    /@handling_mode must be in the manifest's strictness order: weak, strong/,
  ],
  [{ "default/all.cedar": new Uint8Array([0x2f, 0x2f, 0xff]) }, /^default\/all\.cedar: is not UTF-8 text$/],
  [{ "manifest.yaml": null }, /^manifest\.yaml: the manifest is missing/],
  [{ "manifest.json": "{}" }, /^manifest\.yaml: there are several manifests: manifest\.yaml, manifest\.json/],
  [{ "manifest.yaml": "platform: platform\ntenants: { a: default\n" }, /^manifest\.yaml:\d: /],
  [manifest("platform: x"), /^manifest\.yaml:3: Map keys must be unique/],
  [{ "manifest.yaml": "[]" }, /^manifest\.yaml:1: the manifest must be a map/],
  [
    { "manifest.yaml": 'platform: platform\ntenant: { "*": default }\ntenants: { "*": default }' },
    /^manifest\.yaml:2: the manifest has an unknown member tenant \(known: platform, tenants/,
  ],
  [tenants("b: absent"), /^manifest\.yaml: the set absent is missing \(make the folder absent/],
  [{ "manifest.yaml": 'tenants: { "*": default }' }, /^manifest\.yaml: platform must name a folder/],
  [
    tenants("b: ../default"),
    /^manifest\.yaml:2: the set of tenant b must name a folder of the policy directory \(.*no path\)/,
  ],
  [tenants("b: tests"), /the set of tenant b must name a folder/],
  [tenants('"a/b": default'), /^manifest\.yaml:2: "a\/b" is not a tenant id/],
  [{ "default/all.cedar": null, "default/README.md": "none" }, /^default: the set has no \*\.cedar file/],
  [manifest("guidance: { handling_mode: Odd One }"), /^manifest\.yaml:3: guidance\.handling_mode must be one word/],
  [
    manifest("guidance:\n  key_transport:\n    tdf: kms"),
    /^manifest\.yaml:5: guidance\.key_transport\.tdf must be "none" or members/,
  ],
  [
    manifest("strictness: { handling_mode: [a] }"),
    /^manifest\.yaml:3: strictness\.handling_mode must list at least two different words/,
  ],
  [{ "schema.cedarschema": "entity Principal;" }, /^schema\.cedarschema: differs from the schema of this version/],
];

function laid(change: Readonly<Record<string, string | Uint8Array | null>>): Files {
  const files = Object.entries({ ...openFiles, ...change });
  return Object.fromEntries(files.filter((file): file is [string, string | Uint8Array] => file[1] !== null));
}

test.each(table.map(([change, problem]) => ({ change, problem })))(
  "refuses a directory: $problem",
  async ({ change, problem }) => {
    const problems = await problemsOf(laid(change));
    expect(
      problems.filter((text) => problem.test(text)),
      problems.join("\n"),
    ).toHaveLength(1);
  },
);

test("all problems are listed at once, by place", async () => {
  const problems = await problemsOf(
    laid({
      "manifest.yaml": 'platform: platform\ntenants: { "*": default, b: absent }\nextra: 1',
      "default/all.cedar": 'permit (principal, action, resource);\n@id("x") @odd permit (principal, action, resource);',
      "platform/b.cedar": '@id("b") permit (principal, action, resource) when { context.x };',
    }),
  );
  expect(problems.map((text) => text.slice(0, 36))).toEqual([
    "default/all.cedar:1: the policy has ",
    "default/all.cedar:2: unknown annotat",
    "manifest.yaml: the set absent is mis",
    "manifest.yaml:3: the manifest has an",
    "platform/b.cedar:1: b: attribute `x`",
  ]);
});

test("a profile that the deployment lacks is refused, as guidance and as the default", async () => {
  const problems = await problemsOf(
    laid({ "default/b.cedar": '@id("b") @artifact_profile("envelope") permit (principal, action, resource);' }),
    { supportedProfiles: ["tdf"] },
  );
  expect(problems).toEqual([
    expect.stringContaining("@artifact_profile must be one of tdf"),
    "manifest.yaml: the default profile envelope is not supported by this deployment (set guidance.artifact_profile to one of tdf)",
  ]);
});

test("a missing directory is a problem that names it, not a crash", async () => {
  expect(await problemsOf({})).toEqual([".: the policy directory /policies cannot be read (ENOENT)"]);
});
