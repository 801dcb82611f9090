/** Policy directories in memory, questions with defaults, and arbitrary questions. */
import { posix } from "node:path";
import { policyToJson } from "@cedar-policy/cedar-wasm/nodejs";
import fc from "fast-check";
import { type AttributeDeclarations, authSources, type Caller } from "../../../src/base/caller.ts";
import type { PrincipalId, TenantId } from "../../../src/base/ids.ts";
import { utf8Text } from "../../../src/base/text-forms.ts";
import { artifactProfiles } from "../../../src/base/vocabulary.ts";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { type CompiledEngine, engineOf as compiled, type EngineOptions } from "../../../src/policy/engine/engine.ts";
import { identify, type PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { fileSystemOf, type PolicyFileSystem, type PolicySettings } from "../../../src/policy/load/directory.ts";
import type { Claimed, OnBehalfOf, PolicyAction, PolicyQuery, Registered } from "../../../src/policy/model/decision.ts";
import { describeProblem } from "../../../src/policy/model/problem.ts";
import { policyActions } from "../../../src/policy/model/schema.ts";
import { folderForTest, writeFiles } from "../../harness/folder.ts";

/** Files of a policy directory by path within it. */
export type Files = Readonly<Record<string, string | Uint8Array>>;

/** A file system that has the files under `/policies`, and nothing else. */
export function memoryFileSystem(files: Files): PolicyFileSystem {
  const contents = new Map(Object.entries(files).map(([name, content]) => [posix.join("/policies", name), content]));
  const texts = [...contents].map(([path, content]) => [path, typeof content === "string" ? content : ""]);
  const memory = fileSystemOf(Object.fromEntries(texts));
  return {
    ...memory,
    async readdir(path) {
      if (contents.has(path)) throw Object.assign(new Error(), { code: "ENOTDIR" });
      return memory.readdir(path);
    },
    async readFile(path) {
      const content = contents.get(path);
      return content instanceof Uint8Array ? content : memory.readFile(path);
    },
  };
}

/** The files, in a folder. */
export function below(folder: string, files: Files): Files {
  return Object.fromEntries(Object.entries(files).map(([file, content]) => [`${folder}/${file}`, content]));
}

/** A new folder of the machine with the files, until the test ends. */
export function folderOf(files: Files): string {
  const root = folderForTest("policies");
  writeFiles(root, files);
  return root;
}

export const permitAll = '@id("all") permit (principal, action, resource);';
/** A directory that allows everything to everybody. */
export const openFiles: Files = {
  "manifest.yaml": 'platform: platform\ntenants: { "*": default }\n',
  "platform/all.cedar": permitAll,
  "default/all.cedar": permitAll,
};

/** A policy for every principal, action and resource, under a condition. */
const policyOf =
  (effect: string) =>
  (id: string, condition: string, annotations = "") =>
    `@id("${id}") ${annotations} ${effect} (principal, action, resource) when { ${condition} };`;
export const permit = policyOf("permit");
export const forbid = policyOf("forbid");

/** A policy as Cedar parses it. */
export function parsedPolicy(text: string) {
  const parsed = policyToJson(text);
  if (parsed.type === "failure") throw new Error(parsed.errors[0]?.message);
  return parsed.json;
}

/** Attributes of the caller of every type, and the manifest's member that declares them. */
export const declaredAttributes: AttributeDeclarations = {
  clearance: { type: "whole_number", claim: ["clearance"], required: true },
  constructor: { type: "text" as const, claim: ["constructor"], required: false },
  on_call: { type: "yes_no", claim: ["on_call"], required: false },
  roles: { type: "set_of_text", claim: ["realm_access", "roles"], required: false },
};
export const declaration = `caller_attributes:
  clearance: { type: whole_number, required: true }
  constructor: { type: text }
  on_call: { type: yes_no, claim: on_call }
  roles: { type: set_of_text, claim: realm_access.roles, required: false }
`;
/** Allows everything to every caller that has what is required, and declares them. */
export const declaringFiles: Files = { ...openFiles, "manifest.yaml": `${openFiles["manifest.yaml"]}${declaration}` };

/** Every problem of the directory, one line each. */
export async function problemsOf(files: Files, settings: PolicySettings = {}): Promise<readonly string[]> {
  const loaded = await loadPolicyDirectory("/policies", memoryFileSystem(files), settings);
  return (loaded.problems ?? []).map(describeProblem);
}

/** The bundle of a good directory. */
export async function bundleOf(files: Files, settings: PolicySettings = {}): Promise<PolicyBundle> {
  const { bundle, problems = [] } = await loadPolicyDirectory("/policies", memoryFileSystem(files), settings);
  if (bundle === undefined) throw new Error(problems.map(describeProblem).join("\n"));
  return bundle;
}

/** The engine of a good directory. */
export async function engineOf(
  files: Files,
  settings: PolicySettings = {},
  options: EngineOptions = {},
): Promise<CompiledEngine> {
  return compiled(await bundleOf(files, settings), options);
}

/** A question of an ordinary caller. */
export function ask(action: PolicyAction, claimed: Partial<Claimed> = {}, caller: Partial<Caller> = {}): PolicyQuery {
  return {
    caller: {
      tenantId: "tenant-a" as TenantId,
      principalId: "writer" as PrincipalId,
      subject: "writer-subject",
      authSource: "bearer_token",
      scopes: [],
      ...caller,
    },
    action,
    claimed: {
      workload: { application: "payroll" },
      resource: { kind: "record" },
      labels: [],
      attributes: {},
      content_digest_present: false,
      ...claimed,
    },
  };
}

// Few words, so that questions collide with policies and with each other.
const word = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom("eu", "us", "a", "b", "production", "tenant-a", "do-not-export", "", "region"),
  },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 8 }) },
);
const key = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom(
      ...["region", "owner", "__entity", "__extn", "constructor", "purpose", "context.claimed.purpose"],
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 }) },
);
const optional = { requiredKeys: [] as never[] };
/** Half of them of entities that `entities.ts` has, or almost has. */
const label = fc.constantFrom(
  "classified",
  "secret",
  "confidential",
  "public",
  "eu",
  "Public",
  "__proto__",
  "unheard-of",
);
const labelsOf = (maxLength: number) => fc.oneof(fc.array(word, { maxLength }), fc.array(label, { maxLength }));
const application = fc.oneof(word, fc.constantFrom("payroll", "viewer", "unheard-of"));
const kind = fc.oneof(word, fc.constantFrom("rooms", "1", "record"));
const keyReference = fc.constantFrom("kms://a", "kms://tenant-b/x", "local", "kms://payroll", "kms://other");
const attributes = fc.record(
  {
    clearance: fc.constantFrom(-1, 0, 1, 2 ** 53 - 1),
    constructor: word,
    on_call: fc.boolean(),
    roles: fc.array(word, { maxLength: 3 }),
  },
  { requiredKeys: ["clearance"], noNullPrototype: true },
);

const registered: fc.Arbitrary<Registered> = fc.record(
  {
    labels: labelsOf(2),
    labels_ever: labelsOf(3),
    attributes: fc.dictionary(key, word, { maxKeys: 3, noNullPrototype: true }),
    resource: fc.record({ kind, id: word }, { requiredKeys: ["kind"] }),
    artifact_profile: fc.constantFrom(...artifactProfiles),
    key_reference: keyReference,
    application,
    principal: fc.constantFrom("a", "b"),
    citation_matched: fc.boolean(),
    registered_at: fc.constantFrom(0, 1_700_000_000_000),
  },
  {
    requiredKeys: [
      ...(["labels", "labels_ever", "attributes", "resource", "artifact_profile"] as const),
      ...(["application", "principal", "citation_matched", "registered_at"] as const),
    ],
  },
) as fc.Arbitrary<Registered>;

/** Arbitrary questions over few words, of callers with the declared attributes. */
export const queries: fc.Arbitrary<PolicyQuery> = fc.record(
  {
    action: fc.constantFrom(...policyActions),
    caller: fc.record({
      tenantId: fc.constantFrom("tenant-a", "tenant-b") as fc.Arbitrary<TenantId>,
      principalId: fc.constantFrom("a", "b") as fc.Arbitrary<string> as fc.Arbitrary<PrincipalId>,
      subject: word,
      scopes: fc.array(word, { maxLength: 3 }),
      authSource: fc.constantFrom(...authSources),
      attributes,
    }),
    claimed: fc
      .tuple(
        fc.record({
          workload: fc.record({ application, environment: word, component: word }, { requiredKeys: ["application"] }),
          resource: fc.record({ kind, id: word, mime_type: word }, { requiredKeys: ["kind"] }),
          labels: labelsOf(3),
          attributes: fc.dictionary(key, word, { maxKeys: 4, noNullPrototype: true }),
          content_digest_present: fc.boolean(),
        }),
        fc.record(
          {
            purpose: word,
            artifact_profile: fc.constantFrom(...artifactProfiles),
            content_size_bytes: fc.constantFrom(0, 1, 2 ** 53 - 1),
            key_reference: keyReference,
          },
          optional,
        ),
      )
      .map(([needed, given]): Claimed => ({ ...needed, ...given }) as Claimed),
    registered,
  },
  { requiredKeys: ["action", "caller", "claimed"] },
);

const onBehalfOf: fc.Arbitrary<OnBehalfOf> = fc.record({
  type: word,
  id: word,
  properties: fc.dictionary(key, word, { maxKeys: 3, noNullPrototype: true }),
  property_values: fc.array(
    fc.tuple(key, word).map((pair) => pair.join("=")),
    { maxLength: 3 },
  ),
});

/** The same, half of them about another principal than the caller. */
export const anyQueries: fc.Arbitrary<PolicyQuery> = fc
  .tuple(queries, fc.option(onBehalfOf, { nil: undefined, freq: 2 }))
  .map(([query, subject]) => (subject === undefined ? query : { ...query, onBehalfOf: subject }));

/** What a store keeps of the bundle. */
export function bundleContent(bundle: PolicyBundle): string {
  return utf8Text(identify(bundle).content);
}
