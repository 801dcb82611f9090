/** The story of all examples in the document: a payroll export protects a customer record. */
import type { JsonObject } from "../../../base/json.ts";
import { platformDomainNames } from "../../../domain/platform-domains.ts";
import { routes, type ScopeTable } from "../../../domain/routes.ts";

/** An example of a request and its answer. */
export interface RouteExample {
  /** Name within the route, in snake_case. */
  readonly name: string;
  /** What happens, in one sentence. */
  readonly summary: string;
  /** Body to send; absent on GET. */
  readonly request?: JsonObject;
  readonly answer: JsonObject;
}

/** The deployment's values that every answer contains. */
export interface World {
  readonly service: string;
  readonly scopes: ScopeTable;
}

/** Examples of one route. */
export type RouteExamples = (world: World) => readonly RouteExample[];

export const workload = { application: "payroll-export", environment: "production", component: "nightly-writer" };
export const resource = { kind: "customer-record", id: "cust-8841", mime_type: "application/pdf" };
export const declared = { purpose: "quarterly-audit", labels: ["confidential"], attributes: { region: "eu" } };

export const contentDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
export const decisionId = "01953c5e-8f4e-7539-908b-079e7bb06c40";
export const policyRevision = "sha256:d70c2c0513bbab369bd54ee7d2920e2fd33f6542878de65676c354c91e2db560";

/** A brief receipt: the record's place in the tenant's log, and the proof of it. */
export const receipt = {
  record_id: decisionId,
  log_origin: "logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb",
  leaf_index: 1,
  tree_size: 2,
  leaf_hash: "/hBswJXmJGTDVZeEf16rvnbE+zK/W9niJqJGP5WLMXg=",
  proof:
    "c2sp.org/tlog-proof@v1\nindex 1\n94UxykGrPVYVDHIVOpYCbMZd68AjChEq7E10EcotuIE=\n\n" +
    "logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb\n2\nFfwHV3gi7akwZ35mC9qxou2cVNyo+2H9rVJ5CxB/ncg=\n\n" +
    "— logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb " +
    "HxGPJhPt3CXuRXoTkXpJf1nBUPFncpJnty4FBJLD1xizma8vjUk3hiPy2jKX+ASbYtycC/cNEbzLTLBcFd3xMKaIzQY=\n",
};

/** A protected artifact, with its digest and the CID derived from it. */
export const artifact = {
  base64: "VERGMyBzZWFsZWQgcGF5bG9hZCBvZiBjdXN0LTg4NDEK",
  digest: "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0",
  cid: "bafkreifxbabexy6a75f7ez4zhnwdj4c7sgtnzbijajkaoxq2mzfgnyt6ya",
};

/** `request_summary` of the workload, resource and declarations above. */
export const summarized = {
  workload_application: workload.application,
  workload_environment: workload.environment,
  workload_component: workload.component,
  resource_kind: resource.kind,
  resource_id: resource.id,
  mime_type: resource.mime_type,
  purpose: declared.purpose,
  label_count: 1,
  attribute_count: 1,
};

/** `service`, `status` and `caller`, with which every answer starts. */
export function head({ service, scopes }: World, status: "ready" | "ok" = "ready"): JsonObject {
  const all = [...new Set(routes.flatMap(({ route }) => scopes.required(route)))];
  return {
    service,
    status,
    caller: {
      tenant_id: "tenant-a",
      principal_id: "payroll-service",
      subject: "client-7f3a",
      auth_source: "bearer_token",
      scopes: all,
    },
  };
}

const reasons: Readonly<Record<(typeof platformDomainNames)[number], string>> = {
  discovery: "Discovery answers from the running configuration.",
  identity: "Access tokens are verified.",
  policy: `Policy revision ${policyRevision} is in force.`,
  protection: "Protection is decided by policy and recorded.",
  key_access: "Key use is authorized; 1 key reference pattern is managed.",
  artifact_registry: "Registrations of artifact metadata are recorded on the ledger.",
  evidence_ledger: "Records are written to the evidence ledger before they are answered.",
};

export const platformDomains = platformDomainNames.map((domain) => ({
  domain,
  configured: true,
  reason: reasons[domain],
}));
