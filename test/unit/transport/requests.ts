/** Types of requests, and good requests of them. */
import type { DescMessage } from "@bufbuild/protobuf";
import { sampleCalls } from "../../../dev/requests.ts";
import { RegistrationItemSchema } from "../../../gen/platform/bulk/v1/records_pb.ts";
import { CreateSessionRequestSchema } from "../../../gen/platform/sdk/v1/session_pb.ts";
import { authzenMethods, methodOn, wireMethods } from "../../harness/methods.ts";

/** Types of all requests. */
export const requestTypes: readonly DescMessage[] = [
  ...[...wireMethods, ...authzenMethods].map(({ desc }) => desc.input),
  CreateSessionRequestSchema,
  RegistrationItemSchema,
];

/** A request of each JSON route that takes one. */
export const samples = sampleCalls("01890a5d-ac96-774b-bcce-b302099a8057").flatMap(({ route, body }) =>
  body === undefined ? [] : [{ desc: methodOn(route).desc.input, body }],
);

const question = {
  subject: { type: "user", id: "alice" },
  action: { name: "access" },
  resource: { type: "document", id: "1" },
};
const someOf = (type: string) => ({ type });
const bodies: Readonly<Record<string, object>> = {
  ...Object.fromEntries(samples.map(({ desc, body }) => [desc.name, body])),
  EvaluateRequest: question,
  EvaluateManyRequest: question,
  SearchSubjectsRequest: { ...question, subject: someOf("user") },
  SearchResourcesRequest: { ...question, resource: someOf("document") },
  SearchActionsRequest: { subject: question.subject, resource: question.resource },
};

/** A good request of a type, as the JSON routes spell it. Random searches begin with it: they may draw no other. */
export function goodBody({ name }: DescMessage): object {
  if (name === "RegistrationItem") return { idempotency_key: "a", registration: bodies.RegisterArtifactRequest };
  return bodies[name] ?? {};
}
