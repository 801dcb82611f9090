/** Types of requests, and good requests of them. */
import type { DescMessage } from "@bufbuild/protobuf";
import { sampleCalls } from "../../../dev/requests.ts";
import { RegistrationItemSchema } from "../../../gen/platform/bulk/v1/records_pb.ts";
import { CreateSessionRequestSchema } from "../../../gen/platform/sdk/v1/session_pb.ts";
import { furtherDocuments } from "../../../scripts/openapi/further-documents.ts";
import { furtherMethods, methodOn, wireMethods } from "../../harness/methods.ts";

/** Types of all requests, and the item of bulk ones, whose items are read one by one. */
export const requestTypes: readonly DescMessage[] = [
  ...[...wireMethods, ...furtherMethods].map(({ desc }) => desc.input).filter(({ file }) => !/bulk/.test(file.name)),
  CreateSessionRequestSchema,
  RegistrationItemSchema,
];

/** A request of each JSON route that takes one. */
export const samples = sampleCalls("01890a5d-ac96-774b-bcce-b302099a8057").flatMap(({ route, body }) =>
  body === undefined ? [] : [{ desc: methodOn(route).desc.input, body }],
);

const examples = Object.values(furtherDocuments).flatMap(({ routes }) =>
  routes.map(({ path, examples: [first] }) => [methodOn(path).desc.input.name, first?.request ?? {}] as const),
);
const bodies: Readonly<Record<string, object>> = {
  ...Object.fromEntries(samples.map(({ desc, body }) => [desc.name, body])),
  ...Object.fromEntries(examples),
};

/** A good request of a type, as the JSON routes spell it. Random searches begin with it: they may draw no other. */
export function goodBody({ name }: DescMessage): object {
  if (name === "RegistrationItem") return { idempotency_key: "a", registration: bodies.RegisterArtifactRequest };
  return bodies[name] ?? {};
}
