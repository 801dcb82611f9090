/** Calls of enforcement points with many questions: how they share the event loop with others, and their quotas. */
import { create, type DescMethodUnary, type MessageInitShape } from "@bufbuild/protobuf";
import { createContextValues, createHandlerContext, type HandlerContext } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthorizationService } from "../../../../gen/platform/authzen/v1/authorization_pb.ts";
import { overloaded, storeUnavailable } from "../../../../src/base/errors.ts";
import { createEvaluations, delegationScope } from "../../../../src/domain/evaluation.ts";
import { type Call, kCall } from "../../../../src/transport/calls/call.ts";
import { createAuthorizationService } from "../../../../src/transport/rpc/authorization.ts";
import { createWorld, identity } from "../../domain/world.ts";

type Methods = typeof AuthorizationService.method;

function setUp() {
  const { dependencies, engine, ledger } = createWorld();
  /** Decisions that were made when the call got another turn. */
  const turns: number[] = [];
  const taken: number[] = [];
  const settled: (readonly [number, number | undefined])[] = [];
  const service = createAuthorizationService(createEvaluations(dependencies), {
    maxQuestionBytes: 2 ** 20,
    takeItems: async (_, count) => {
      taken.push(count);
      return (recorded, asked) => settled.push([recorded, asked]);
    },
  });
  const ticket: Call["ticket"] & object = {
    enter() {},
    waitedMs: 0,
    belongsTo() {},
    park() {},
    resume: async () => void turns.push(engine.queries.length),
    leave() {},
  };
  const { caller, requestId } = identity();
  const call: Call = {
    caller: { ...caller, scopes: [...caller.scopes, "keys.use", delegationScope] },
    requestId,
    receivedAtMs: 0,
    inbound: { headerValues: () => [], remoteAddress: "", method: "POST", url: "/" },
    ticket,
  };
  const ask = <Name extends keyof Methods>(name: Name, init: MessageInitShape<Methods[Name]["input"]>) => {
    const method = AuthorizationService.method[name] as DescMethodUnary;
    const context = createHandlerContext({
      service: AuthorizationService,
      method,
      protocolName: "grpc",
      requestMethod: "POST",
      url: "https://host.example/",
      contextValues: createContextValues().set(kCall, call),
    });
    const handle = service[name] as (request: unknown, context: HandlerContext) => Promise<unknown>;
    return handle(create(method.input, init as never), context);
  };
  return { ask, call, engine, ledger, turns, taken, settled };
}

const subject = { type: "user", id: "alice" };
const action = { name: "can_read" };
const resource = { type: "record", id: "one" };
const candidates = (count: number) => Array.from({ length: count }, (_, i) => ({ id: `candidate-${i}` }));
const evaluations = Array.from({ length: 100 }, () => ({ resource }));

const large = {
  evaluateMany: { subject, action, evaluations },
  searchSubjects: { subject: { type: "user" }, action, resource, context: { candidates: candidates(100) } },
  searchResources: { subject, action, resource: { type: "record" }, context: { candidates: candidates(100) } },
};

test.each(Object.entries(large))("%s takes its turn again for every 16 questions", async (name, init) => {
  const { ask, engine, turns, ledger } = setUp();
  await ask(name as keyof typeof large, init as never);
  expect([engine.queries.length, ledger.records.length]).toEqual([100, 100]);
  const decided = [...turns.filter((count) => count > 0), 100];
  for (const [i, count] of decided.entries()) expect(count - (decided[i - 1] ?? 0)).toBeLessThanOrEqual(16);
  // And while they are read, before anything is decided.
  expect(turns.filter((count) => count === 0)).toHaveLength(6);
});

test("a call that gets no turn any more is refused, and leaves nothing", async () => {
  const { ask, call, ledger } = setUp();
  Object.assign(call.ticket ?? {}, { resume: () => Promise.reject(overloaded()) });
  await expect(ask("searchSubjects", large.searchSubjects)).rejects.toMatchObject({ reason: "overloaded" });
  expect(ledger.records).toEqual([]);
});

test("quotas are asked for all questions besides the call, and told which were asked", async () => {
  const { ask, engine, taken, settled, call } = setUp();
  await ask("searchSubjects", { ...large.searchSubjects, page: { limit: 3n } });
  expect(engine.queries).toHaveLength(3);
  await ask("evaluateMany", { ...large.evaluateMany, options: { evaluationsSemantic: "permit_on_first_permit" } });
  expect([taken, settled]).toEqual([
    [99, 99],
    [
      [2, 2],
      [0, 0],
    ],
  ]);
  expect(call.recordedItems).toBe(undefined);
  await ask("searchSubjects", { ...large.searchSubjects, page: { limit: 0n } });
  expect([taken.length, call.recordedItems]).toEqual([2, 0]);
});

test.each([
  ["a call that finds no room leaves its records in the quota", overloaded(), [[0, undefined]]],
  ["a call that may have been recorded counts in full", storeUnavailable("down"), []],
])("%s", async (_, refusal, expected) => {
  const { ask, ledger, taken, settled } = setUp();
  const group = ledger.group();
  ledger.group = () => ({ ...group, commit: () => Promise.reject(refusal) });
  await expect(ask("searchSubjects", large.searchSubjects)).rejects.toBe(refusal);
  expect([taken, settled]).toEqual([[99], expected]);
});

test("a question whose action means something else once it is decided is refused, and leaves nothing", async () => {
  const { ask, engine, ledger } = setUp();
  let isReplaced = false;
  const once = () => {
    if (isReplaced) return undefined;
    isReplaced = true;
    return "access";
  };
  engine.actions = Object.assign(new Map<string, "access">(), { get: once });
  await expect(ask("evaluate", { subject, action, resource })).rejects.toMatchObject({
    reason: "policy_unavailable",
    details: { retryAfterSeconds: 1 },
  });
  expect([engine.queries, ledger.records]).toEqual([[], []]);
});
