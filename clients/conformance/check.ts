/** What cases are made of, and how answers are compared. */
import assert from "node:assert/strict";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { isBulk } from "./bulk-calls.ts";
import type { BulkRoute, CallStep, DriverOptions, Route, Step, StepAnswer } from "./protocol.ts";
import { itemsOf, methods, requests } from "./requests.ts";
import type { IssuerScript, Seen, ServerScript } from "./script.ts";

export interface Case {
  /** `theme/what-happens`. */
  readonly name: string;
  /** What a client does: the sentence that specifies it. */
  readonly says: string;
  readonly request: {
    readonly steps: readonly Step[];
    readonly options?: Partial<DriverOptions>;
    readonly dpop?: boolean;
    /** Which certificate the client has. Default: one that the service trusts. */
    readonly certificate?: "none" | "stranger";
    /** Whose word for the service's certificate the client takes. Default: the right authority's. */
    readonly trusts?: "stranger";
    /** Name under which the client looks for the service. Default `localhost`, which its certificate names. */
    readonly host?: string;
    /** Default: the client's secret. */
    readonly token?: "wrong-secret" | "certificate";
  };
  readonly server?: ServerScript;
  readonly issuer?: IssuerScript;
  /** What each step must come to. */
  readonly answers: readonly Expected[];
  /** What the service and the issuer must have seen; throws where they did not. */
  readonly sees?: (seen: Seen, tookMs: number) => void;
}

/** What a step must come to; throws where it did not. */
export type Expected = (step: StepAnswer, call: Step) => void;

/** A step with the sample request of its call, of bulk calls with three items. */
export function call(route: Route | BulkRoute, more: Partial<CallStep> = {}): CallStep {
  const request = isBulk(route) ? { items: itemsOf(route, 3) } : requests[route];
  return { call: route, request, ...more };
}

/** An answer that carries at least this, in protobuf JSON of either spelling. */
export function answered(expected: object = {}): Expected {
  return (step, { call = "" }) => {
    assert.ok(step.answer !== undefined, `an answer was expected, not ${JSON.stringify(step)}`);
    const route = call.replace("cached-", "") as Route;
    assertWithin(expected, fromJson(methods[route].output, step.answer, { ignoreUnknownFields: true }), "answer");
  };
}

/** An error with this code and reason, at least. Several codes: any of them. */
export function failed(code: string | readonly string[], reason = "", more: JsonObject = {}): Expected {
  return (step) => {
    const { error } = step;
    assert.ok(error !== undefined, `an error was expected, not ${JSON.stringify(step)}`);
    const codes = typeof code === "string" ? [code] : code;
    assert.ok(codes.includes(error.code), `the code should be ${codes.join(" or ")}: ${JSON.stringify(error)}`);
    assert.equal(error.reason, reason, `the reason of ${JSON.stringify(error)}`);
    assertWithin(more, error, "error");
  };
}

export function notPermitted(reasons: readonly string[], unknownObligations: readonly string[]): Expected {
  return (step) => {
    assert.ok(step.not_permitted !== undefined, `no permission was expected, not ${JSON.stringify(step)}`);
    assert.deepEqual([...step.not_permitted.reasons].sort(), [...reasons].sort());
    assert.deepEqual([...step.not_permitted.unknown_obligations].sort(), [...unknownObligations].sort());
  };
}

/** An answer or a verification with this word about its receipt. */
export function receiptIs(word: StepAnswer["receipt"]): Expected {
  return (step) => assert.equal(step.receipt, word, JSON.stringify(step).slice(0, 500));
}

/** The steps of a concurrent step. */
export function all(...expected: readonly Expected[]): Expected {
  return ({ steps = [] }, step) => {
    assert.ok(step.call === "concurrent");
    assert.equal(steps.length, step.calls.length, "answers of the calls at the same time");
    for (const [i, each] of steps.entries()) (expected[i] ?? expected.at(-1))?.(each, step.calls[i] as Step);
  };
}

/** Both. */
export function both(...expected: readonly Expected[]): Expected {
  return (step, call) => {
    for (const each of expected) each(step, call);
  };
}

/** Whether every member of `expected` is in `actual`, at every depth. */
export function assertWithin(expected: unknown, actual: unknown, path: string): void {
  if (typeof expected !== "object" || expected === null) {
    assert.equal(actual, expected, path);
    return;
  }
  assert.ok(typeof actual === "object" && actual !== null, `${path} is missing`);
  if (Array.isArray(expected)) assert.equal((actual as unknown[]).length, expected.length, `${path}.length`);
  for (const [name, value] of Object.entries(expected))
    assertWithin(value, (actual as Record<string, unknown>)[name], `${path}.${name}`);
}

/** No call was refused by the server's own rules: every token, proof and certificate was good. */
export function noFaults({ calls }: Seen): void {
  assert.deepEqual(
    calls.flatMap(({ fault = [] }) => fault),
    [],
    "faults of calls",
  );
}

/** Numbers of calls and token requests. */
export function counts(seen: Seen, calls: number, tokenRequests = 1): void {
  assert.equal(seen.calls.length, calls, `calls that arrived: ${seen.calls.map(({ route }) => route).join(", ")}`);
  assert.equal(seen.tokenRequests.length, tokenRequests, "token requests");
}
