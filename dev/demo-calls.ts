/**
 * The first part of the demo: calls all eight routes over REST and over gRPC as a workload would, and prints a table.
 */
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import {
  clientCredentials,
  createRestTransport,
  type TokenProvider,
  workloadInterceptors,
} from "../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient } from "../clients/typescript/src/node.ts";
import { publicServices } from "../src/transport/calls/methods.ts";
import { readJson } from "../src/transport/codec/json-reader.ts";
import { type SampleCall, sampleCalls } from "./requests.ts";
import { createRestRegistry, messageEncoder } from "./rest-json.ts";
import type { Stack } from "./stack.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers of eight shapes are read here, by their members' names.
type Answer = any;

/** For each route: whether its answer is as expected, and what to print of it. */
const expectations: Readonly<Record<string, (answer: Answer) => Outcome>> = {
  "/v1/sdk/capabilities": ({ status, routes }) => ({
    good: status === "ready" && routes.length === 8,
    said: `${routes.length} routes; evidence needs ${routes.at(-1).required_scopes}`,
  }),
  "/v1/sdk/whoami": ({ status, caller }) => ({
    good: status === "ok" && caller.tenant_id === "tenant-a",
    said: `${caller.principal_id} of ${caller.tenant_id}`,
  }),
  "/v1/sdk/bootstrap": ({ plaintext_to_platform, enforcement_model }) => ({
    good: plaintext_to_platform === false && enforcement_model === "embedded_local_library",
    said: enforcement_model,
  }),
  "/v1/sdk/protection-plan": ({ decision, execution }) => ({
    good: decision.allow === true && execution.send_plaintext_to_platform === false,
    said: `allowed: ${decision.allow}; profile ${execution.artifact_profile}`,
  }),
  "/v1/sdk/policy-resolve": ({ decision, handling }) => ({
    good: decision.allow === true && handling.plaintext_transport === "forbidden_by_default",
    said: `allowed: ${decision.allow}; evidence expected of ${handling.evidence_expected}`,
  }),
  "/v1/sdk/key-access-plan": ({ decision, execution }) => ({
    good: decision.allow === true && execution.key_transport?.raw_key_delivery_forbidden === true,
    said: `allowed: ${decision.allow}; key by ${execution.key_transport?.mode}`,
  }),
  "/v1/sdk/artifact-register": ({ registration, request_summary }) => ({
    good: registration.accepted === true && request_summary.decision_id_present === true,
    said: `accepted: ${registration.accepted}; cites its decision`,
  }),
  "/v1/sdk/evidence": ({ ingestion, warnings }) => ({
    good: ingestion.accepted === true && warnings.length === 0,
    said: `accepted: ${ingestion.accepted}`,
  }),
};

/** Makes one call and returns the answer as the JSON routes spell it. */
type Caller = (call: SampleCall) => Promise<Answer>;

/** Calls as a workload does: typed messages, a token fetched when needed, retries. */
function callerOver(transport: Transport): Caller {
  const registry = createRestRegistry(publicServices.flatMap(({ file }) => [file, ...file.dependencies]));
  const methods = new Map<string, DescMethodUnary>(
    publicServices.flatMap(({ typeName, methods }) =>
      methods.map((method) => [`${typeName}/${method.name}`, method as DescMethodUnary]),
    ),
  );
  return async ({ rpc, body }) => {
    const method = methods.get(rpc);
    if (method === undefined) throw new Error(`${rpc} is not a public method`);
    const request: Message = readJson(registry.message(method.input), Buffer.from(JSON.stringify(body ?? {})), "rest");
    const { message } = await transport.unary(method, undefined, 5_000, undefined, request);
    return JSON.parse(messageEncoder(registry.message(method.output))(message));
  };
}

function tokensOf({ issuer }: Stack): TokenProvider {
  const [client] = issuer.clients;
  if (client === undefined) throw new Error("the issuer has no client");
  const { clientId, clientSecret, scopes } = client;
  return clientCredentials({ issuer: issuer.url, clientId, clientSecret, scopes, http: createHttpClient() });
}

/** Makes the calls and prints one line for each method. Resolves with the number of failures. */
export async function showCalls(stack: Stack): Promise<number> {
  const interceptors = workloadInterceptors({ tokens: tokensOf(stack) });
  const grpc = createGrpcTransport({ baseUrl: stack.url, interceptors });
  const rest = createRestTransport({ baseUrl: stack.url, http: createHttpClient(), interceptors });
  const outcomes = [await callAll(callerOver(rest)), await callAll(callerOver(grpc))];
  grpc.close();
  const say = (...cells: readonly string[]) => {
    const [name = "", said = "", ...marks] = cells;
    process.stdout.write(`  ${name.padEnd(19)} ${said.padEnd(46)} ${marks.join("  ")}`.trimEnd().concat("\n"));
  };
  process.stdout.write("A workload calls the eight methods, over REST (/v1/sdk/...) and over gRPC.\n\n");
  say("method", "answer", "REST", "gRPC");
  for (const [i, { route }] of sampleCalls().entries()) {
    const both = outcomes.map((each) => each[i] ?? { good: false, said: "not called" });
    const bad = both.find(({ good }) => !good);
    say(
      route.slice("/v1/sdk/".length),
      (bad ?? both[0])?.said ?? "",
      ...both.map(({ good }) => (good ? "ok  " : "NO  ")),
    );
  }
  const all = outcomes.flat();
  const failures = all.filter(({ good }) => !good).length;
  process.stdout.write(`\n${all.length - failures} of ${all.length} calls were answered as they should be.\n`);
  return failures;
}

interface Outcome {
  readonly good: boolean;
  readonly said: string;
}

/** Calls every method; registration and evidence cite the decision that allowed them. */
async function callAll(call: Caller): Promise<readonly Outcome[]> {
  const plan = await call(sampleCalls().find(({ route }) => route === "/v1/sdk/protection-plan") as SampleCall);
  const outcomes: Outcome[] = [];
  for (const sample of sampleCalls(plan.decision.decision_id))
    outcomes.push(
      await call(sample).then(
        (answer) => expectations[sample.route]?.(answer) ?? { good: false, said: "unexpected route" },
        (error: unknown) => ({ good: false, said: String(error) }),
      ),
    );
  return outcomes;
}
