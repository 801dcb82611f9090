/** Requests as a test of a short way wants them: most are good, and of the others most have one thing wrong. */
import type { DescField, DescMessage } from "@bufbuild/protobuf";
import fc from "fast-check";
import { sampleCalls } from "../../../dev/requests.ts";
import { CreateSessionRequestSchema } from "../../../gen/platform/sdk/v1/session_pb.ts";
import { methodOn, wireMethods } from "../../harness/methods.ts";

/** Types of all requests. */
export const requestTypes: readonly DescMessage[] = [
  ...wireMethods.map(({ desc }) => desc.input),
  CreateSessionRequestSchema,
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

/** Lengths about which some rule has an opinion. */
const lengths = [1, 2, 63, 64, 127, 128, 129, 254, 255, 256, 257, 512, 1024, 1025, 2048, 2049];
const good = fc.constantFrom("a", "sha256:00", "tenant-a", "é", "😀", "payroll");
const atLimit = fc
  .tuple(fc.constantFrom(...lengths), fc.constantFrom("a", "é", "😀"))
  .map(([length, character]) => character.repeat(length));
const unclean = fc.constantFrom(
  "",
  "\0",
  "a\0",
  "\ud800",
  "a\udc00b",
  "\u0001",
  "\\u0000",
  "a\nb",
  "sha256:",
  "__proto__",
);

/** Mostly the first. */
export function mostly<T>(usual: fc.Arbitrary<T>, ...odd: fc.Arbitrary<unknown>[]): fc.Arbitrary<T> {
  const others = odd.map((arbitrary) => ({ arbitrary: arbitrary as fc.Arbitrary<T>, weight: 1 }));
  return fc.oneof({ arbitrary: usual, weight: 15 * others.length }, ...others);
}

const texts = mostly(good, atLimit, unclean);

/** Texts of a member: digests have a form of their own. */
export function textsOf({ name }: DescField): fc.Arbitrary<string> {
  return name.endsWith("digest") ? mostly(fc.constantFrom("sha256:00", "sha256:é"), texts) : texts;
}

/** Lists and maps of a few items, now and then about as many as a rule allows. */
export const labels = mostly(
  fc.array(texts, { maxLength: 3 }),
  fc.constantFrom(63, 64, 65).map((count) => Array.from({ length: count }, () => "a")),
);
export const attributes = mostly(
  fc.dictionary(texts, texts, { maxKeys: 3 }),
  fc.constantFrom(64, 65).map((count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]))),
);

/** An object whose members are made by `arbitraryOf`; those that a field's rules ask for are seldom absent. */
export function members(
  desc: DescMessage,
  nameOf: (field: DescField) => string,
  arbitraryOf: (field: DescField) => fc.Arbitrary<unknown>,
): fc.Arbitrary<Record<string, unknown>> {
  const present = (field: DescField) => fc.oneof({ arbitrary: arbitraryOf(field), weight: 9 }, fc.constant(undefined));
  return fc
    .record(Object.fromEntries(desc.fields.map((field) => [nameOf(field), present(field)])))
    .map((made) => Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)));
}
