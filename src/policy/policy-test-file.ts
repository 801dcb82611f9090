/**
 * Expected decisions, as operators write them in `tests/*.yaml`: a list of
 *
 *     - name: a confidential record may be protected
 *       tenant: tenant-a
 *       principal: { principal_id: writer, subject: writer, scopes: [keys.use] }   # optional, and so each member
 *       action: protect                       # protect, access, rewrap, wrap, unwrap, rewrapKey
 *       claimed:                              # workload.application and resource.kind are needed
 *         workload: { application: payroll }
 *         resource: { kind: customer-record }
 *         labels: [confidential]
 *       expect:
 *         allow: true
 *         reasons: [platform/data-operations, tenant/ordinary]     # optional; all of them, in any order
 *         guidance: { artifact_profile: tdf }                      # optional; the members to look at
 *
 * Members of `guidance` are named in `guidanceMembers`.
 */
import { isNode, isSeq, LineCounter, parseDocument } from "yaml";
import { authSources, type Caller } from "../base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../base/ids.ts";
import { artifactProfiles } from "../base/vocabulary.ts";
import type { Claimed, Guidance, PolicyQuery } from "./decision.ts";
import type { PolicyProblem } from "./problem.ts";
import { policyActions } from "./schema.ts";

/** One expected decision. */
export interface PolicyTest {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly query: PolicyQuery;
  readonly expect: {
    readonly allow: boolean;
    readonly reasons?: readonly string[];
    readonly guidance: Readonly<Record<string, unknown>>;
  };
}

/** How a test names a member of the guidance, and what it is compared with. */
export const guidanceMembers: Readonly<Record<string, (guidance: Guidance) => string | readonly string[]>> = {
  handling_mode: (guidance) => guidance.handlingMode,
  enforcement_mode: (guidance) => guidance.enforcementMode,
  local_enforcement_library: (guidance) => guidance.localEnforcementLibrary,
  artifact_profile: (guidance) => guidance.artifactProfile,
  key_strategy: (guidance) => guidance.keyStrategy,
  authorization_strategy: (guidance) => guidance.authorizationStrategy,
  key_transport: (guidance) => guidance.keyTransport?.mode ?? "none",
  send_only: (guidance) => guidance.sendOnly,
  bind_policy_to: (guidance) => guidance.bindPolicyTo,
  required_actions: (guidance) => guidance.requiredActions,
  evidence_expected: (guidance) => guidance.evidenceExpected,
  required_scopes: (guidance) => guidance.requiredScopes,
  warnings: (guidance) => guidance.warnings,
};

/** Reads a file of expected decisions; tests with problems are left out. */
export function parsePolicyTests(
  file: string,
  text: string,
): { readonly tests: readonly PolicyTest[]; readonly problems: readonly PolicyProblem[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const problems: PolicyProblem[] = document.errors.map(({ message, pos }) => {
    return { file, line: lines.linePos(pos[0]).line, message };
  });
  if (problems.length > 0) return { tests: [], problems };
  if (!isSeq(document.contents))
    return { tests: [], problems: [{ file, line: 1, message: "must be a list of tests" }] };
  const tests: PolicyTest[] = [];
  for (const item of document.contents.items) {
    const line = lines.linePos((isNode(item) ? item.range?.[0] : undefined) ?? 0).line;
    try {
      tests.push({ file, line, ...parseTest(isNode(item) ? item.toJS(document) : item) });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push({ file, line, message: error.message });
    }
  }
  return { tests, problems };
}

/** Throws a RangeError that says what is wrong. */
function parseTest(value: unknown): Omit<PolicyTest, "file" | "line"> {
  const test = members(value, "a test", ["name", "tenant", "principal", "action", "claimed", "expect"]);
  const expect = members(test.expect, "expect", ["allow", "reasons", "guidance"]);
  if (typeof expect.allow !== "boolean") throw new RangeError("expect.allow must be true or false");
  const reasons = optional(expect.reasons, (list) => strings(list, "expect.reasons"));
  return {
    name: string(test.name, "name"),
    query: {
      caller: parseCaller(test.tenant, test.principal),
      action: oneOf(policyActions, test.action, "action"),
      claimed: parseClaimed(test.claimed),
    },
    expect: {
      allow: expect.allow,
      ...(reasons !== undefined && { reasons }),
      guidance: members(expect.guidance ?? {}, "expect.guidance", Object.keys(guidanceMembers)),
    },
  };
}

function parseCaller(tenant: unknown, value: unknown): Caller {
  const principal = members(value ?? {}, "principal", ["principal_id", "subject", "scopes", "auth_source"]);
  const tenantId = parseTenantId(string(tenant, "tenant"));
  const principalId = parsePrincipalId(string(principal.principal_id ?? "test-principal", "principal.principal_id"));
  if (tenantId === undefined || principalId === undefined) throw new RangeError("tenant or principal_id is no id");
  return {
    tenantId,
    principalId,
    subject: string(principal.subject ?? "test-subject", "principal.subject"),
    scopes: strings(principal.scopes ?? [], "principal.scopes"),
    authSource: oneOf(authSources, principal.auth_source ?? "bearer_token", "principal.auth_source"),
  };
}

function parseClaimed(value: unknown): Claimed {
  const texts = ["purpose", "key_reference"];
  const others = ["labels", "attributes", "artifact_profile", "content_digest_present", "content_size_bytes"];
  const claimed = members(value, "claimed", ["workload", "resource", ...texts, ...others]);
  const workload = members(claimed.workload, "claimed.workload", ["application", "environment", "component"]);
  const resource = members(claimed.resource, "claimed.resource", ["kind", "id", "mime_type"]);
  const profile = optional(claimed.artifact_profile, (name) => oneOf(artifactProfiles, name, "artifact_profile"));
  const digestPresent = claimed.content_digest_present ?? false;
  if (typeof digestPresent !== "boolean") throw new RangeError("claimed.content_digest_present must be true or false");
  const size = claimed.content_size_bytes;
  if (size !== undefined && !(Number.isSafeInteger(size) && Number(size) >= 0)) {
    throw new RangeError("claimed.content_size_bytes must be an integer from 0");
  }
  const attributes = members(claimed.attributes ?? {}, "claimed.attributes");
  return {
    workload: {
      application: string(workload.application, "claimed.workload.application"),
      ...textMembers(workload, ["environment", "component"]),
    },
    resource: {
      kind: string(resource.kind, "claimed.resource.kind"),
      ...textMembers(resource, ["id", "mime_type"]),
    },
    ...textMembers(claimed, texts),
    labels: strings(claimed.labels ?? [], "claimed.labels"),
    attributes: Object.fromEntries(
      Object.entries(attributes).map(([key, text]) => [key, string(text, `attributes.${key}`)]),
    ),
    ...(profile !== undefined && { artifact_profile: profile }),
    content_digest_present: digestPresent,
    ...(size !== undefined && { content_size_bytes: Number(size) }),
  };
}

type Members = Readonly<Record<string, unknown>>;

function members(value: unknown, what: string, known?: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new RangeError(`${what} must be a map`);
  const unknown = Object.keys(value).find((name) => known !== undefined && !known.includes(name));
  if (unknown !== undefined)
    throw new RangeError(`${what} has an unknown member ${unknown}; known: ${known?.join(", ")}`);
  return value as Members;
}

function string(value: unknown, what: string): string {
  if (typeof value !== "string" || value === "") throw new RangeError(`${what} must be text`);
  return value;
}

function strings(value: unknown, what: string): readonly string[] {
  if (!Array.isArray(value)) throw new RangeError(`${what} must be a list`);
  return value.map((item) => string(item, `an item of ${what}`));
}

function oneOf<T extends string>(values: readonly T[], value: unknown, what: string): T {
  const found = values.find((candidate) => candidate === value);
  if (found === undefined) throw new RangeError(`${what} must be one of ${values.join(", ")}`);
  return found;
}

function optional<T>(value: unknown, parse: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : parse(value);
}

function textMembers(from: Members, names: readonly string[]): Readonly<Record<string, string>> {
  const given = names.filter((name) => from[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, string(from[name], name)]));
}
