/** A domain in memory: a ledger that keeps what it is given, and a policy engine that answers what a test says. */
import { createHash } from "node:crypto";
import type { Caller } from "../../../src/base/caller.ts";
import {
  parsePrincipalId,
  parseRequestId,
  parseTenantId,
  type RecordId,
  type TenantId,
} from "../../../src/base/ids.ts";
import type { SdkRoute } from "../../../src/base/vocabulary.ts";
import type { Deployment } from "../../../src/domain/deployment.ts";
import type { LivePlatform } from "../../../src/domain/platform-domains.ts";
import type { ArtifactHasher } from "../../../src/domain/ports.ts";
import { planKeyAccess, planProtection, resolvePolicy } from "../../../src/domain/protection.ts";
import type { CallIdentity } from "../../../src/domain/record.ts";
import { createScopeTable } from "../../../src/domain/routes.ts";
import type { Ledger, Receipt, RecordGroup } from "../../../src/ledger/ports/ledger.ts";
import type { NewRecord, StoredRecord } from "../../../src/ledger/ports/record.ts";
import type { ArtifactRegistrations } from "../../../src/ledger/ports/registrations.ts";
import { defaultKeyReferences, keyReferenceAliases } from "../../../src/policy/guidance/key-references.ts";
import type {
  Guidance,
  Obligation,
  PolicyDecision,
  PolicyEngine,
  PolicyQuery,
} from "../../../src/policy/model/decision.ts";

export const startMs = Date.UTC(2026, 2, 1, 12);

/** Throws where a test's own literal is no id. */
export function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("test literal is malformed");
  return value;
}

export function identity(tenant = "tenant-a", principal = "payroll-service"): CallIdentity {
  const caller: Caller = {
    tenantId: must(parseTenantId(tenant)),
    principalId: must(parsePrincipalId(principal)),
    subject: "client-7f3a",
    authSource: "bearer_token",
    scopes: ["platform-api.access", "policy.read"],
  };
  return { caller, requestId: must(parseRequestId("req-1")) };
}

export const guidance: Guidance = {
  handling_mode: "local_embedded_enforcement",
  enforcement_mode: "local_embedded_enforcement",
  local_enforcement_library: "sdk_embedded_library",
  artifact_profile: "tdf",
  artifact_profile_overridden: false,
  key_strategy: "local_content_key",
  authorization_strategy: "policy_decision",
  policy_resolution: "metadata_only_control_plane",
  send_only: ["artifact_digest", "decision_id"],
  bind_policy_to: ["artifact_digest", "content_digest"],
  required_actions: [],
  evidence_expected: ["protect"],
  required_scopes: [],
  warnings: [],
};

export class FakeLedger implements Ledger {
  readonly records: NewRecord[] = [];
  readonly stored = new Map<string, StoredRecord | "erased">();
  appends = 0;
  finds = 0;
  nowMs: () => number;

  constructor(nowMs: () => number) {
    this.nowMs = nowMs;
  }

  async append(record: NewRecord) {
    this.appends++;
    this.records.push(record);
    const recordedAt = new Date(this.nowMs()).toISOString();
    this.stored.set(`${record.tenantId} ${record.recordId}`, stored(record, recordedAt));
    const { recordId } = record;
    const leafIndex = this.records.length;
    return { recordId, log: "log", leafIndex, recordedAt, receipt: receiptOf(recordId, leafIndex) };
  }

  multiProof(): never {
    throw new Error("no proof is asked for here");
  }

  group(): RecordGroup {
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

  async find(tenantId: TenantId, recordId: RecordId) {
    this.finds++;
    return this.stored.get(`${tenantId} ${recordId}`) ?? "unknown";
  }

  /** By the names of artifacts. */
  readonly registered = new Map<string, ArtifactRegistrations>();

  async registrations(_tenantId: TenantId, names: readonly string[]) {
    return names.map((name) => this.registered.get(name) ?? []);
  }

  async keepPolicyRevision() {}
  async check() {}
  async close() {}
}

/** A receipt in the right shape, which proves nothing. */
export function receiptOf(recordId: RecordId, leafIndex: number): Receipt {
  return {
    recordId,
    logOrigin: "log",
    leafIndex,
    treeSize: leafIndex + 1,
    leafHash: "aGFzaA==",
    proof: "c2sp.org/tlog-proof@v1\n",
    leaf: "bGVhZg==",
    opening: "b3BlbmluZw==",
    record: "cmVjb3Jk",
    cose: () => Buffer.from("cose"),
  };
}

function stored(record: NewRecord, recordedAt: string): StoredRecord {
  const { kind, recordId, tenantId, requestId, caller, route, request, outcome } = record;
  return {
    kind,
    record_id: recordId,
    log: "log",
    tenant_id: tenantId,
    recorded_at: recordedAt,
    request_id: requestId,
    caller,
    route,
    // A store gives back what JSON keeps.
    request: JSON.parse(JSON.stringify(request)),
    request_digest: "sha256:0",
    outcome: JSON.parse(JSON.stringify(outcome)),
  };
}

export class FakeEngine implements PolicyEngine {
  readonly revision = "sha256:revision";
  readonly queries: PolicyQuery[] = [];
  answer: { allow?: boolean; guidance?: Partial<Guidance>; obligations?: readonly Obligation[]; alerts?: string[] } =
    {};

  /** Whether its policies read what was registered. */
  registered = false;

  readsRegistered(): boolean {
    return this.registered;
  }

  actions: PolicyEngine["actions"] = new Map([["can_read", "access"]]);

  decide(query: PolicyQuery): PolicyDecision {
    this.queries.push(query);
    return {
      allow: this.answer.allow ?? true,
      reasons: ["permit-1"],
      policyRevision: this.revision,
      inputs: ["resource.kind"],
      guidance: { ...guidance, ...this.answer.guidance },
      obligations: this.answer.obligations ?? [],
      alerts: this.answer.alerts ?? [],
    };
  }
}

export const routeScopes: Record<SdkRoute, readonly string[]> = {
  capabilities: [],
  whoami: [],
  bootstrap: [],
  "protection-plan": ["policy.read"],
  "policy-resolve": ["policy.read"],
  "key-access-plan": ["keys.use"],
  "artifact-register": ["artifacts.write"],
  evidence: ["evidence.write"],
};

export function deployment(changes: Partial<Deployment> = {}): Deployment {
  return {
    supportedOperations: ["protect", "access", "rewrap"],
    supportedProfiles: ["tdf", "envelope", "detached_signature"],
    scopes: createScopeTable(["platform-api.access"], routeScopes),
    showReasons: true,
    decisionMaxAgeSeconds: 86_400,
    isKeyReferenceAlias: keyReferenceAliases(defaultKeyReferences),
    ...changes,
  };
}

export function livePlatform(changes: Partial<LivePlatform> = {}): LivePlatform {
  return {
    authMode: "bearer_token",
    authConfiguration: () => ({
      mode: "oauth_client_credentials",
      proofOfPossession: "mtls",
      oidcIssuer: "https://issuer.example/realms/platform",
      oidcAudience: "api://svc-platform-api",
      oidcIssuerReady: true,
      mtlsReady: true,
    }),
    policy: () => ({ configured: true, reason: "A policy set is in force." }),
    ledger: () => ({ configured: true, reason: "Records are written." }),
    managedKeyPatterns: 1,
    ...changes,
  };
}

/** Hashes at once, here: what the thread does with odd text is shown where the thread is tested. */
export const hasher: ArtifactHasher = {
  async digest(_tenantId, objectBase64, hashes) {
    const bytes = Buffer.from(objectBase64, "base64");
    return {
      sizeBytes: bytes.length,
      digests: new Map(hashes.map((name) => [name, createHash(name).update(bytes).digest("hex")])),
    };
  },
};

/** The domain's dependencies over what is in memory, and its decision routes. */
export function createWorld(changes: Partial<Deployment> = {}, engine: PolicyEngine = new FakeEngine()) {
  const time = { nowMs: startMs };
  const clock = { now: () => time.nowMs };
  let drawn = 0;
  const random = (bytes: Uint8Array) => {
    drawn++;
    return bytes.map((_, i) => (drawn * 31 + i) & 0xff);
  };
  const ledger = new FakeLedger(() => time.nowMs);
  const dependencies = { deployment: deployment(changes), live: livePlatform(), ledger, engine, hasher, clock, random };
  return {
    ...{ time, ledger, dependencies },
    engine: engine as FakeEngine,
    protection: {
      plan: planProtection.bind(undefined, dependencies),
      resolve: resolvePolicy.bind(undefined, dependencies),
    },
    keyAccess: { plan: planKeyAccess.bind(undefined, dependencies) },
  };
}

export const described = {
  workload: { application: "payroll-export" },
  resource: { kind: "customer-record", id: "cust-8841" },
  labels: ["label-secret"],
  attributes: { "attribute-key-secret": "attribute-value-secret" },
} as const;

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
