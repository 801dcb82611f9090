/** The services that an OpenTDF key access service (KAS) calls: messages to questions, and decisions to answers. */
import type { JsonObject as StructObject } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type AuthorizationService,
  Decision,
  type EntityIdentifier,
  type GetDecisionMultiResourceRequest,
  type Resource,
  type ResourceDecision,
} from "../../../gen/opentdf/authorization_pb.ts";
import type { WellKnownService } from "../../../gen/opentdf/wellknownconfiguration_pb.ts";
import type { Caller } from "../../base/caller.ts";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import type { RecordingLedger } from "../../domain/deployment.ts";
import type { Evaluations } from "../../domain/evaluation.ts";
import { requiredObligations, type TdfFile, tdfFile, tdfQuestion } from "../../domain/opentdf.ts";
import { registeredWith } from "../../domain/registered.ts";
import { callerOf } from "../calls/call.ts";
import { type AskingOptions, createAsking } from "./bulk.ts";
import { identityOf } from "./messages.ts";

export interface OpentdfOptions extends AskingOptions {
  readonly ledger: Pick<RecordingLedger, "registrations">;
  /** As `Authenticator.holderOf`. */
  readonly holderOf: (token: string, signal: AbortSignal) => Promise<Caller>;
}

type Asked = Pick<GetDecisionMultiResourceRequest, "entityIdentifier" | "action" | "fulfillableObligationFqns">;

export function createOpentdfService(
  evaluations: Evaluations,
  { ledger, holderOf, ...options }: OpentdfOptions,
): ServiceImpl<typeof AuthorizationService> {
  const asking = createAsking(evaluations, options);

  async function decide(
    { entityIdentifier, action, fulfillableObligationFqns }: Asked,
    resources: readonly (Resource | undefined)[],
    pathOf: (position: number) => string,
    context: HandlerContext,
  ): Promise<ResourceDecision[]> {
    if (resources.length === 0) throw invalidRequest("resources", "required", "value is required");
    const files = resources.map((resource, i) => fileOf(resource, pathOf(i)));
    const user = await userOf(entityIdentifier, context);
    const decisionIds = [...new Set(files.flatMap(({ decisionId }) => decisionId ?? []))];
    const prepare = (found: Awaited<ReturnType<typeof registeredWith>>) => {
      const questions = files.map((file, i) => {
        const registration = file.decisionId && found[decisionIds.indexOf(file.decisionId)];
        // Facts of one would not be those of the other, and without facts a forbid that reads them does not apply.
        if (registration === "several")
          throw invalidRequest(
            `${pathOf(i)}.attribute_values.fqns`,
            "artifact.one",
            "must name a decision of one artifact at most",
          );
        return {
          question: tdfQuestion(file, user, action?.name ?? "", fulfillableObligationFqns, registration),
          at: (field: string) => placeOf(field, pathOf(i)),
        };
      });
      return asking.prepare(questions, context);
    };
    // The scopes do not depend on registered artifacts. Without the scopes, nothing is looked up.
    asking.requireScopes(await prepare([]), context);
    const found = await registeredWith(ledger, identityOf(context), decisionIds);
    const decided = await asking.decide(await prepare(found), context);
    return decided.map((one, i) => ({
      $typeName: "authorization.v2.ResourceDecision",
      ephemeralResourceId: resources[i]?.ephemeralId ?? "",
      decision: one.allow ? Decision.PERMIT : Decision.DENY,
      requiredObligations: [...requiredObligations(one, files[i] as TdfFile)],
    }));
  }

  /** Returns the holder of the token. A fault of this token is a bad request: the caller's own credentials are valid. */
  async function userOf(identifier: EntityIdentifier | undefined, context: HandlerContext): Promise<Caller> {
    const { token, entityChain, registeredResourceValueFqn = "" } = identifier ?? {};
    if (entityChain !== undefined || registeredResourceValueFqn !== "")
      throw unsupported("entity_identifier", "must have a token: other entities are not supported");
    if (token === undefined) throw invalidRequest("entity_identifier.token", "required", "value is required");
    const user = await holderOf(token.jwt, context.signal).catch((error: unknown) => {
      if (error instanceof ServiceError && error.code === "unauthenticated") return undefined;
      throw error;
    });
    if (user?.tenantId === callerOf(context).tenantId) return user;
    throw invalidRequest("entity_identifier.token.jwt", "token.valid", "must be a valid access token of the tenant");
  }

  return {
    async getDecision(request, context) {
      const [decision] = await decide(request, [request.resource], () => "resource", context);
      return decision === undefined ? {} : { decision };
    },
    async getDecisionMultiResource(request, context) {
      const resourceDecisions = await decide(request, request.resources, (i) => `resources[${i}]`, context);
      const allPermitted = resourceDecisions.every(({ decision }) => decision === Decision.PERMIT);
      return { allPermitted, resourceDecisions };
    },
  };
}

function fileOf(resource: Resource | undefined, path: string): TdfFile {
  const { attributeValues, registeredResourceValueFqn = "" } = resource ?? {};
  if (registeredResourceValueFqn !== "")
    throw unsupported(path, "must have attribute values: registered resources are not supported");
  if (attributeValues === undefined || attributeValues.fqns.length === 0)
    throw invalidRequest(`${path}.attribute_values`, "required", "value is required");
  const file = tdfFile(attributeValues.fqns);
  if (file !== undefined) return file;
  throw invalidRequest(`${path}.attribute_values.fqns`, "decision.one", "must name one decision at most");
}

/** Paths of the question's members in the request. */
function placeOf(field: string, resource: string): string {
  // Properties are attributes of the token.
  const token = "entity_identifier.token";
  if (field.startsWith("subject.properties")) return field.replace("subject.properties", `${token}.attributes`);
  if (field.startsWith("subject")) return token;
  if (field.startsWith("context")) return "fulfillable_obligation_fqns";
  return field.startsWith("action") ? field : `${resource}.attribute_values.fqns`;
}

function unsupported(field: string, message: string): ServiceError {
  const violations = [{ field, rule: "opentdf.supported", message }];
  return new ServiceError("invalid_request", `${field}: ${message}`, { code: "unimplemented", violations });
}

/** @param configuration returns what OpenTDF's programs must know, now */
export function createWellKnownService(configuration: () => StructObject): ServiceImpl<typeof WellKnownService> {
  return { getWellKnownConfiguration: async () => ({ configuration: configuration() }) };
}
