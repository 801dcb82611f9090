/** Good requests that are as large as a request may be, for comparison with those that are not. */
import { create, type DescMessage, type Message, toBinary, toJson } from "@bufbuild/protobuf";
import { sampleCalls } from "../../dev/requests.ts";
import { requestFromRest, restTextOf, type WireMethod } from "./methods.ts";

/** Characters in labels, and in keys and values of attributes, where all are as long as they may be. */
const labelCharacters = 256;
const keyCharacters = 128;
const valueCharacters = 1024;
const most = 64;
const mostCharacters = most * (labelCharacters + keyCharacters + valueCharacters);
/** Characters of base64 that carry 8 MiB, less one byte. */
const mostObjectCharacters = 11_184_808;

/** A good request of about so many bytes, and no more, as far as there is room for them. */
export function fullRequest(method: WireMethod, sizeBytes: number): Message {
  if (method.restPath === "/access/v1/evaluation") return fullQuestion(method, sizeBytes);
  const body = sampleCalls().find(({ route }) => route === method.restPath)?.body;
  const {
    labels: _,
    attributes: __,
    artifact_object_b64: ___,
    artifact_cid: ____,
    ...plain
  } = (body ?? {}) as Record<string, unknown>;
  const message = requestFromRest(method, plain);
  const room = sizeBytes - 4096;
  if ("artifactDigest" in message && method.restPath.endsWith("artifact-register")) {
    const characters = Math.min(mostObjectCharacters, room) & ~3;
    // A digest that is not looked at.
    Object.assign(message, { artifactDigest: "own:full", artifactObjectB64: "A".repeat(characters) });
    return message;
  }
  const unit = ["a", "é", "中", "😀"].find((text) => Buffer.byteLength(text) * mostCharacters >= room) ?? "😀";
  const share = Math.min(1, room / (Buffer.byteLength(unit) * mostCharacters));
  const text = (characters: number) => unit.repeat(Math.max(1, Math.floor(characters * share) - 4));
  return create(
    method.desc.input as DescMessage,
    {
      ...message,
      labels: Array.from({ length: most }, () => text(labelCharacters)),
      attributes: Object.fromEntries(
        Array.from({ length: most }, (_, i) => [
          `${i}-`.padStart(4, "k") + text(keyCharacters - 4),
          text(valueCharacters),
        ]),
      ),
    } as never,
  );
}

/** Of an enforcement point: what is large are free objects, of the subject and of the resource. */
function fullQuestion(method: WireMethod, sizeBytes: number): Message {
  const share = Math.min(1, (sizeBytes - 4096) / (2 * most * (keyCharacters + valueCharacters)));
  const text = (characters: number) => "a".repeat(Math.max(1, Math.floor(characters * share) - 8));
  const properties = Object.fromEntries(
    Array.from({ length: most }, (_, i) => [`${i}-${text(keyCharacters)}`, text(valueCharacters)]),
  );
  return requestFromRest(method, {
    subject: { type: "user", id: "alice", properties },
    action: { name: "access" },
    resource: { type: "document", id: "1", properties },
  });
}

/** The same request in each spelling. */
export const spellings = {
  rest: (method: WireMethod, message: Message): Buffer => Buffer.from(restTextOf(method.desc.input, message)),
  canonical: ({ desc }: WireMethod, message: Message): Buffer =>
    Buffer.from(JSON.stringify(toJson(desc.input, message))),
  binary: ({ desc }: WireMethod, message: Message): Buffer => Buffer.from(toBinary(desc.input, message)),
} as const;
