import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type RegisterArtifactRequest,
  RegisterArtifactRequestSchema,
  type RegistrationService,
} from "../../../gen/platform/sdk/v1/registration_pb.ts";
import type { Registrations } from "../../domain/registration.ts";
import type { RegistrationRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { artifactKind, artifactProfile, protectionOperation } from "./enums.ts";
import { envelope, forMessage, identityOf, withReceipt } from "./messages.ts";

/** The registration service over its domain. `service` is the name in every answer. */
export function createRegistrationService(
  service: string,
  registrations: Registrations,
): ServiceImpl<typeof RegistrationService> {
  return {
    registerArtifact: (request, context) => registerArtifact(service, registrations, request, context),
  };
}

export function registrationRequest(message: RegisterArtifactRequest): RegistrationRequest {
  return toNormalForm<RegisterArtifactRequest, RegistrationRequest, "artifact_object_b64">(
    RegisterArtifactRequestSchema,
    message,
  );
}

async function registerArtifact(
  service: string,
  registrations: Registrations,
  message: RegisterArtifactRequest,
  context: HandlerContext,
) {
  const identity = identityOf(context);
  const request = registrationRequest(message);
  const object = message.artifactObjectB64;
  const answer = forMessage(await registrations.register(identity, request, object, context.signal));
  const { requestSummary: summary } = answer;
  return {
    ...envelope(service, identity.caller),
    ...answer,
    registration: withReceipt(context, answer.registration),
    requestSummary: {
      ...summary,
      operation: protectionOperation[summary.operation],
      artifactKind: summary.artifactKind && artifactKind[summary.artifactKind],
      artifactProfile: artifactProfile[summary.artifactProfile],
    },
  };
}
