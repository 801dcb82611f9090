/** Whether a receipt belongs to its answer: to this question, result, caller and time. */
import { isDeepStrictEqual } from "node:util";
import type { DescMessage, JsonObject } from "@bufbuild/protobuf";
import { fromRouteJson } from "../json-spelling.ts";
import { requireCall } from "../receipts/answer.ts";
import { answerDifferences, at, type RecordedRoute, recordedForm, requestDifferences } from "../receipts/relations.ts";
import { verifyReceipt } from "../receipts.ts";
import {
  PlanKeyAccessRequestSchema,
  PlanProtectionRequestSchema,
  RecordEvidenceRequestSchema,
  RegisterArtifactRequestSchema,
} from "./client.ts";
import type { Accepted, Decision, EvidenceEvent, KeyQuestion, ProtectionQuestion, Registration } from "./platform.ts";
import { messageOf } from "./verify.ts";

/** A question and its answer. */
export type Exchange =
  | { readonly route: "protection-plan"; readonly asked: ProtectionQuestion; readonly answer: Decision }
  | { readonly route: "key-access-plan"; readonly asked: KeyQuestion; readonly answer: Decision }
  | { readonly route: "artifact-register"; readonly asked: Registration; readonly answer: Accepted }
  | { readonly route: "evidence"; readonly asked: EvidenceEvent; readonly answer: Accepted };

/** Identity of this workload for the platform, as in `whoami`. */
export interface ExpectedCaller {
  readonly tenantId: string;
  readonly principalId: string;
}

export interface Expectation {
  readonly logKeys: readonly string[];
  readonly caller: ExpectedCaller | undefined;
  /** Milliseconds since the Unix epoch: the record must not be older. */
  readonly sinceMs: number;
  readonly nowMs: number;
}

const requests: Readonly<Partial<Record<RecordedRoute, DescMessage>>> = {
  "protection-plan": PlanProtectionRequestSchema,
  "key-access-plan": PlanKeyAccessRequestSchema,
  "artifact-register": RegisterArtifactRequestSchema,
  evidence: RecordEvidenceRequestSchema,
};

/** Rejects unless the trusted log holds the record of this exchange. */
export async function requireReceipt(exchange: Exchange, expected: Expectation): Promise<void> {
  const { route, asked, answer } = exchange;
  if (answer.receipt === undefined) throw new Error("there is none");
  const message = messageOf(answer.receipt);
  const { record } = await verifyReceipt(message, expected.logKeys);
  if (record === undefined) throw new Error("it is a brief one, which shows no record");
  const said = saidBy(exchange);
  const differing = [
    ...answerDifferences(route, said, record, (member) => at(said, member) !== undefined),
    ...requestDifferences(requestOf(route, asked), record),
  ];
  if ("plan" in answer && !isDeepStrictEqual(transportOf(answer.plan), recordedTransport(record)))
    differing.push("execution.key_transport");
  if (differing.length > 0) throw new Error(`it is of another ${differing.join(", ")}`);
  requireCall(route, record, { caller: expected.caller, sentAtMs: expected.sinceMs }, expected.nowMs);
}

/** Everything in the answer that is acted on. */
function saidBy({ route, answer }: Exchange): JsonObject {
  if (!("plan" in answer))
    return { [route === "evidence" ? "ingestion" : "registration"]: { accepted: answer.accepted } };
  const { allow, decisionId: decision_id, policyRevision: policy_revision, plan } = answer;
  const obligations = answer.obligations.map(({ id, parameters }) => ({ id, parameters: { ...parameters } }));
  return {
    decision: {
      ...{ decision_id, allow, policy_revision, obligations },
      ...(plan.handlingMode !== undefined && { handling_mode: plan.handlingMode }),
    },
    execution: {
      [route === "protection-plan" ? "protect_locally" : "local_cryptographic_operation"]: plan.isLocal,
      send_plaintext_to_platform: plan.sendPlaintextToPlatform,
      artifact_profile: plan.artifactProfile,
      ...(plan.library !== undefined && { local_enforcement_library: plan.library }),
    },
  };
}

function requestOf(route: RecordedRoute, asked: Exchange["asked"]): JsonObject {
  const desc = requests[route] as DescMessage;
  return recordedForm(desc, fromRouteJson(desc, JSON.parse(JSON.stringify(asked))) as never);
}

function transportOf({ keyTransport, tdfKey }: Decision["plan"]) {
  if (tdfKey === undefined) return { mode: keyTransport, tdf_key: undefined };
  const { attributeFqns: attribute_fqns, ...named } = tdfKey;
  return { mode: keyTransport, tdf_key: { ...named, attribute_fqns } };
}

/** The same members in the record. */
function recordedTransport(record: JsonObject) {
  const member = (name: string) => at(record, `outcome.guidance.key_transport.${name}`);
  return { mode: String(member("mode") ?? "local_provided"), tdf_key: member("tdf_key") };
}
