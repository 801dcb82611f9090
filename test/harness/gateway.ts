/** A whole deployment for one test file: real issuer, real gateway, real store in a folder of its own. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, expect, vi } from "vitest";
import { type Stack, type StackOptions, startStack } from "../../dev/stack.ts";
import { createLogger, type RootLogger } from "../../src/telemetry/logger.ts";
import { checkedPolicies } from "./checked-policies.ts";
import { forFile } from "./lifetimes.ts";
import { expectAnswerInDocument, isDocumented } from "./openapi.ts";

export interface Gateway extends Stack {
  /** Everything that the gateway logged so far, a line each. */
  readonly logged: readonly string[];
  readonly dataDir: string;
}

/** For a gateway that reads its policy directory again only when a test calls `reload`. */
export const unpolled = { limits: { policyPollMs: 3_600_000 } } as const;

const running = new Set<Gateway>();

/** Calls that have a place, as the gateway says; undefined where its operator listener does not answer. */
export async function inProgress(opsUrl: string): Promise<number | undefined> {
  const metrics = await fetch(`${opsUrl}/metrics`).then(
    (response) => response.text(),
    () => "",
  );
  const [, count] = /^svc_calls_in_progress (\d+)$/m.exec(metrics) ?? [];
  return count === undefined ? undefined : Number(count);
}

/** Sum of the samples that match, as the operator reads them. */
export async function metricSum({ opsUrl }: Pick<Gateway, "opsUrl">, sample: RegExp): Promise<number> {
  const lines = (await (await fetch(`${opsUrl}/metrics`)).text()).split("\n").filter((line) => sample.test(line));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

// Whatever a test did to its calls, none of them has a place any more.
afterEach(async () => {
  for (const { opsUrl } of running)
    await vi.waitFor(async () => expect(await inProgress(opsUrl)).toBeOneOf([0, undefined]), 10_000);
});

/** Starts a deployment. `stop` removes its folder too. */
export async function startGateway(options: Partial<StackOptions> = {}): Promise<Gateway> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "svc-test-")));
  const logged: string[] = [];
  const logger: RootLogger = createLogger({
    level: "debug",
    serviceName: "svc-platform-api",
    destination: { write: (line: string) => void logged.push(line) },
  });
  const overrides = { logger, ...options.overrides };
  const stack = await startStack({ policy: checkedPolicies, ...options, dataDir, overrides });
  const gateway: Gateway = {
    ...stack,
    logged,
    dataDir,
    stop: async () => {
      running.delete(gateway);
      await stack.stop();
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true });
    },
  };
  running.add(gateway);
  return gateway;
}

/** Starts a deployment for all tests of a file, and stops it after the last one. To be called while the file loads. */
export function gatewayForFile(options?: Partial<StackOptions>): Promise<Gateway> {
  return forFile(startGateway(options));
}

/** Keeps all writes from a gateway's embedded store until it is disposed of. */
export function lockStore({ dataDir }: Pick<Gateway, "dataDir">): Disposable {
  const database = new DatabaseSync(join(dataDir, "platform.db"), { timeout: 10_000 });
  database.exec("BEGIN IMMEDIATE");
  return database;
}

/** An answer of a JSON route. */
export interface RestAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
  readonly body: any;
}

/** Sends a call again while the store has no time for it, as a client does: for calls with idempotency keys. */
export async function restUntilServed(...call: Parameters<typeof rest>): Promise<RestAnswer> {
  for (;;) {
    const answer = await rest(...call);
    if (answer.status !== 503) return answer;
  }
}

/** Makes one call on a JSON route; POST if there is a body. Throws if its answer is not in the document. */
export async function rest(
  url: string,
  {
    token,
    body,
    method,
    headers,
  }: { token?: string; body?: unknown; method?: string; headers?: Record<string, string> },
): Promise<RestAnswer> {
  const response = await fetch(url, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const answer = {
    status: response.status,
    headers: response.headers,
    body: text === "" ? undefined : JSON.parse(text),
  };
  const { pathname } = new URL(url);
  if (isDocumented(pathname)) expectAnswerInDocument(pathname, answer.status, answer.headers, answer.body);
  return answer;
}
