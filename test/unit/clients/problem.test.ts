/** What an attempt failed with: a connection that broke may be tried again, whatever a transport calls it. */
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { attemptError } from "../../../clients/typescript/src/problem.ts";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";

const thrownByNode = (code: string) => Object.assign(new Error("the stream closed"), { code });
const wrapped = (code: Code, cause: unknown) => new ConnectError("broke", code, undefined, undefined, cause);
const ofTheService = (code: Code) =>
  new ConnectError("no", code, undefined, [{ desc: ErrorInfoSchema, value: { reason: "internal" } }]);
const never = new AbortController().signal;

test.each<[string, unknown, Code]>([
  ["a stream that closed early, as thrown", thrownByNode("ERR_STREAM_PREMATURE_CLOSE"), Code.Unavailable],
  ["a reset that the transport wrapped", wrapped(Code.Internal, thrownByNode("ECONNRESET")), Code.Unavailable],
  ["a reset that it called aborted", wrapped(Code.Aborted, thrownByNode("ECONNRESET")), Code.Unavailable],
  ["a cancellation that the caller did not ask for", new ConnectError("gone", Code.Canceled), Code.Unavailable],
  ["an internal error of the service", ofTheService(Code.Internal), Code.Internal],
  ["an aborted call of the service", ofTheService(Code.Aborted), Code.Aborted],
  ["an unknown error of the service", new ConnectError("?", Code.Unknown), Code.Unknown],
  ["a defect of the program", new TypeError("not a function"), Code.Unknown],
  ["a deadline", new ConnectError("late", Code.DeadlineExceeded), Code.DeadlineExceeded],
])("%s", (_what, thrown, code) => {
  expect(attemptError(thrown, never).code).toBe(code);
});

test("a cancellation by the caller stays one", () => {
  expect(attemptError(new ConnectError("stop", Code.Canceled), AbortSignal.abort()).code).toBe(Code.Canceled);
});
