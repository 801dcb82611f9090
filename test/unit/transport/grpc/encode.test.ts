import { create, type Message, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFrame, frameEncoder } from "../../../../src/transport/grpc/frame.ts";
import { messages } from "../../../harness/any-message.ts";
import { wireMethods } from "../../../harness/methods.ts";

test.each(wireMethods.map(({ rpcPath, desc }) => [rpcPath, desc.output] as const))("%s", (_, output) => {
  const encode = frameEncoder(output);
  fc.assert(
    fc.property(messages(output), (message) => {
      expect(encode(message).equals(encodeFrame(toBinary(output, message)))).toBe(true);
    }),
  );
});

test("a frame stays as it is when the next is made, and an answer that fails leaves nothing in it", () => {
  const { desc } = wireMethods[0] as (typeof wireMethods)[number];
  const encode = frameEncoder(desc.output);
  const [one, other] = ["one", "other"].map((service) => create(desc.output, { service } as never));
  const first = encode(one as Message);
  const copy = Buffer.from(first);
  expect(() => encode({ ...create(desc.output), service: "x", caller: { scopes: 1 } } as never)).toThrow();
  expect(encode(other as Message).equals(encodeFrame(toBinary(desc.output, other as Message)))).toBe(true);
  expect(first.equals(copy)).toBe(true);
});
