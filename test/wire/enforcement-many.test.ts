/** Many small objects through the service's bulk calls: which answers count for which item. */
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { PassThrough, Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import type { BulkClient } from "../../clients/typescript/src/bulk.ts";
import { SharedCalls } from "../../clients/typescript/src/enforce/bulk-platform.ts";
import {
  createEnforcer,
  EnforcementError,
  type EnforcerOptions,
  localKey,
  type ProtectOptions,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import { PlatformError } from "../../clients/typescript/src/index.ts";
import { enforcementFolder, startEnforcementStack } from "../harness/enforcement.ts";
import { forFile } from "../harness/lifetimes.ts";

const key = localKey("local-symmetric-key", randomBytes(32));
const plaintext = randomBytes(1_024);

const stack = await forFile(startEnforcementStack({ SVC_BULK: "on" }));
const logKeys = [await stack.logKey(), await stack.logKey("payroll-c")];
const { at, spool, files } = enforcementFolder("plain", plaintext);

const common = () => ({
  ...{ client: stack.platform(), workload: { application: "payroll-export" } },
  ...{ keys: [key], spoolDirectory: at("spool") },
});
const enforcer = (options: Partial<EnforcerOptions> = {}) =>
  createEnforcer({ ...common(), bulk: stack.bulk(), logKeys, ...options });

const resourceOf = (i: number) => ({ kind: "customer-record", id: `cust-${i}` });
const protecting = (count: number): ProtectOptions[] =>
  Array.from({ length: count }, (_, i) => ({ input: at("plain"), output: at(`sealed-${i}`), resource: resourceOf(i) }));
const statusesOf = (results: readonly { readonly status: string }[]) => results.map(({ status }) => status);
type Method = "planProtections" | "planKeyAccesses" | "registerArtifacts" | "recordEvents";
/** One item of a request or of an answer. */
type Item = Readonly<Record<string, unknown>>;
type Call = (request: { readonly items: readonly Item[] }, options: unknown) => Promise<{ items: readonly Item[] }>;
type Change = (
  items: readonly Item[],
  asked: readonly Item[],
  ask: (asked: Item) => Promise<Item>,
) => Promise<readonly Item[]>;

/** The service's bulk calls, with changed answers to one of them. */
function doctored(method: Method, change: Change): BulkClient {
  const bulk = stack.bulk();
  const call = bulk[method] as unknown as Call;
  const changed: Call = async (request, options) => {
    const answer = await call(request, options);
    const ask = async (asked: Item) => (await call({ items: [asked] }, options)).items[0] as Item;
    return { ...answer, items: await change(answer.items, request.items, ask) };
  };
  return { ...bulk, [method]: changed };
}

/** The same, of the items about one resource. */
function doctoredItem(
  method: Method,
  id: string,
  change: (item: Item, asked: Item, ask: (asked: Item) => Promise<Item>) => unknown,
) {
  return doctored(method, (items, asked, ask) =>
    Promise.all(
      items.map(async (item, i) =>
        idOf(asked[i]) === id ? ((await change(item, asked[i] as Item, ask)) as Item) : item,
      ),
    ),
  );
}

const payloadOf = (asked: Item = {}) => (asked.event ?? asked.registration ?? asked) as Item;
const idOf = (asked: Item | undefined) => (payloadOf(asked).resource as { readonly id?: string } | undefined)?.id;

/** The question or record, with other members. */
function changedRequest(asked: Item, members: Item): Item {
  for (const name of ["event", "registration"])
    if (asked[name] !== undefined)
      return { ...asked, idempotencyKey: randomUUID(), [name]: { ...payloadOf(asked), ...members } };
  return { ...asked, ...members };
}

test("objects are protected and opened in few calls, each with its own records, in the order of the items", async () => {
  const calls: string[] = [];
  const bulk = Object.fromEntries(
    Object.entries(stack.bulk()).map(([name, call]) => [
      name,
      (...sent: never[]) => {
        calls.push(name);
        return (call as (...sent: never[]) => unknown)(...sent);
      },
    ]),
  ) as unknown as BulkClient;
  const many = enforcer({ bulk });
  const sealed = await many.protectMany(protecting(40));
  const opening = Array.from({ length: 40 }, (_, i) => ({ input: at(`sealed-${i}`), output: at(`opened-${i}`) }));
  const opened = await many.openMany(opening.map((item) => ({ ...item, purpose: "audit" })));
  // One by one they are 320.
  expect(calls.length).toBeLessThan(160);
  const decisions = new Set<string>();
  for (let i = 0; i < 40; i++) {
    const found = await verifyArtifact({ artifact: at(`sealed-${i}`), logKeys });
    expect(sealed[i]).toMatchObject({ status: "fulfilled", value: { decisionId: found.decisionId } });
    expect(found).toMatchObject({ resource: resourceOf(i), isEvidencePending: false });
    decisions.add(found.decisionId);
    expect(opened[i]).toMatchObject({ status: "fulfilled", value: { artifactDigest: found.artifactDigest } });
    expect(readFileSync(at(`opened-${i}`)).equals(plaintext)).toBe(true);
    await verifyArtifact({ artifact: at(`opened-${i}`), kind: "opened", logKeys });
  }
  expect(decisions.size).toBe(40);
  expect(spool()).toEqual([]);
});

test("without bulk calls, each step of each item is a single call", async () => {
  const many = createEnforcer({ ...common(), logKeys });
  expect(statusesOf(await many.protectMany(protecting(3)))).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
});

test("an item that fails does so alone, with the error of its single operation", async () => {
  writeFileSync(at("sealed-1"), "here before");
  const items = protecting(6).map((item, i) => ({
    ...item,
    ...(i === 2 && { labels: ["do-not-export"] }),
    ...(i === 3 && { input: at("missing") }),
    ...(i === 4 && { labels: ["x".repeat(10_000)] }),
  }));
  const results = await enforcer().protectMany(items);
  const failures = results.map((result) => (result.status === "rejected" ? result.reason : undefined));
  expect(failures.map((error) => error?.failure)).toEqual([
    ...[undefined, "exists", "not_permitted", "invalid", "unavailable", undefined],
  ]);
  expect(failures[2]).toMatchObject({ httpStatus: 403, isRetryable: false, decisionId: expect.stringMatching(/-/) });
  expect(failures[4]).toMatchObject({ isRetryable: false, message: expect.stringContaining("invalid_request") });
  expect(failures[4]?.cause).toMatchObject({ code: Code.InvalidArgument, reason: "invalid_request" });
  expect(spool()).toEqual([]);
});

test.each([{ purpose: 42 }, { attributes: { owner: 1 } }, { attributes: ["owner"] }, { artifactLocator: 7 }])(
  "an item with %j, which no call can carry, fails alone",
  async (malformed) => {
    const items = protecting(3).map((item, i) =>
      i === 1 ? ({ ...item, ...malformed } as unknown as ProtectOptions) : item,
    );
    const results = await enforcer().protectMany(items);
    expect(statusesOf(results)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(results[1]).toMatchObject({ reason: { failure: "invalid" } });
  },
);

test("a call that fails fails its items, and they are retryable if the call is", async () => {
  for (const [code, isRetryable] of [
    [Code.Unavailable, true],
    [Code.Unimplemented, false],
  ] as const) {
    const planProtections = () => Promise.reject(PlatformError.from(new ConnectError("no", code)));
    const results = await enforcer({ bulk: { ...stack.bulk(), planProtections } }).protectMany(protecting(2));
    for (const result of results)
      expect(result).toMatchObject({ reason: { failure: "unavailable", httpStatus: 503, isRetryable } });
  }
  expect(files()).toEqual([]);
});

test("items whose call is too large for the service are sent in smaller calls", async () => {
  const sizes: number[] = [];
  const bulk = stack.bulk();
  const planProtections: typeof bulk.planProtections = (request, options) => {
    sizes.push(request.items?.length ?? 0);
    return bulk.planProtections(request, options);
  };
  const attributes = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`name-${i}`, "x".repeat(300)]));
  const items = protecting(64).map(({ resource }) => {
    return { resource, attributes, input: Readable.from([plaintext]), output: new PassThrough().resume() };
  });
  const results = await enforcer({ bulk: { ...bulk, planProtections } }).protectMany(items);
  expect(new Set(statusesOf(results))).toEqual(new Set(["fulfilled"]));
  expect(sizes).toEqual([64, 32, 32]);
});

test("questions that were all aborted make no call", async () => {
  const sizes: number[] = [];
  const calls = new SharedCalls<string, string>(async (asked) => {
    sizes.push(asked.length);
    return asked.map((one) => () => one);
  });
  const leaving = new AbortController();
  const left = calls.ask("left", leaving.signal);
  leaving.abort(new Error("left"));
  await expect(left).rejects.toThrow("left");
  // Turns of the event loop: the call would have been made by then.
  for (let turn = 0; turn < 3; turn++) await setImmediate();
  expect(await calls.ask("stays")).toBe("stays");
  expect(sizes).toEqual([1]);
});

test("an item's signal ends its own wait only", async () => {
  const [first, second] = protecting(2) as [ProtectOptions, ProtectOptions];
  const leaving = new AbortController();
  const bulk = doctored("planKeyAccesses", async (items) => {
    leaving.abort(new Error("left"));
    return items;
  });
  const results = await enforcer({ bulk }).protectMany([{ ...first, signal: leaving.signal }, second]);
  expect(statusesOf(results)).toEqual(["rejected", "fulfilled"]);
});

test("needs the keys of the log", () => {
  expect(() => createEnforcer({ ...common(), bulk: stack.bulk() })).toThrow(EnforcementError);
});

const members = ["decision", "registration", "ingestion"];
const changes: Readonly<Record<string, (item: Item, asked: Item, ask: (asked: Item) => Promise<Item>) => unknown>> = {
  "its answer is another item's": async (item, asked, ask) => ({
    ...(await ask(changedRequest(asked, { resource: resourceOf(1) }))),
    idempotencyKey: item.idempotencyKey,
  }),
  "its answer has another's receipt": async (item, asked, ask) => {
    const other = await ask(changedRequest(asked, { resource: resourceOf(1) }));
    return withResult(item, (result, name) => ({ ...result, receipt: (other[name] as Item).receipt }));
  },
  "its answer is for another label": async (item, asked, ask) => ({
    ...(await ask(changedRequest(asked, { labels: ["internal"] }))),
    idempotencyKey: item.idempotencyKey,
  }),
  "its answer says that it was not evaluated": (item) => ({ ...item, outcome: 3 }),
  "its answer is empty": ({ $typeName, idempotencyKey }) => ({ $typeName, outcome: 1, idempotencyKey, warnings: [] }),
  "its answer has no receipt": (item) => withResult(item, ({ receipt: _, ...result }) => result),
};
function withResult(item: Item, change: (result: Item, name: string) => Item): Item {
  const name = members.find((member) => item[member] !== undefined) as string;
  return { ...item, [name]: change(item[name] as Item, name) };
}

describe.each(["planProtections", "planKeyAccesses", "registerArtifacts", "recordEvents"] as const)(
  "of %s, an item is refused and the others are not, if",
  (method) => {
    const refused = { reason: { failure: "unavailable", httpStatus: 503, isRetryable: true } };

    test.each(Object.entries(changes))("%s", async (_, change) => {
      const results = await enforcer({ bulk: doctoredItem(method, "cust-0", change) }).protectMany(protecting(3));
      expect(statusesOf(results)).toEqual(["rejected", "fulfilled", "fulfilled"]);
      expect(results[0]).toMatchObject(refused);
      expect(files()).not.toContain("sealed-0");
    });

    test("the answer ends before it", async () => {
      const bulk = doctored(method, async (items, asked) => {
        const at = asked.findIndex((one) => idOf(one) === "cust-1");
        return at < 0 ? items : items.slice(0, at);
      });
      expect((await enforcer({ bulk }).protectMany(protecting(3)))[1]).toMatchObject(refused);
    });

    test("the answer has too many items", async () => {
      const bulk = doctored(method, async (items) => [...items, ...items.slice(0, 1)]);
      for (const result of await enforcer({ bulk }).protectMany(protecting(2))) expect(result).toMatchObject(refused);
    });
  },
);

test.each(["planProtections", "planKeyAccesses"] as const)(
  "one decision of %s is not used for two items with the same question",
  async (method) => {
    let first: Item | undefined;
    const bulk = doctoredItem(method, "cust-0", (item) => {
      first ??= item;
      return first;
    });
    const alike = protecting(3).map((item, i) => ({ ...item, resource: resourceOf(i === 2 ? 2 : 0) }));
    const results = await enforcer({ bulk }).protectMany(alike);
    expect(results.slice(0, 2).filter(({ status }) => status === "fulfilled").length).toBeLessThan(2);
    expect(results[2]?.status).toBe("fulfilled");
  },
);

test.each(["planProtections", "planKeyAccesses", "registerArtifacts", "recordEvents"] as const)(
  "%s of another tenant is refused",
  async (method) => {
    const bulk = { ...stack.bulk(), [method]: stack.bulk("payroll-c")[method] } as BulkClient;
    for (const result of await enforcer({ bulk }).protectMany(protecting(2)))
      expect(result).toMatchObject({ reason: { message: expect.stringContaining("caller") } });
  },
);

test.each(["registerArtifacts", "recordEvents"] as const)(
  "%s of another digest, or under another key, is refused",
  async (method) => {
    const others: readonly ((asked: Item) => Item)[] = [
      (asked) => changedRequest(asked, { artifactDigest: `sha256:${"0".repeat(64)}`, artifactCid: "" }),
      (asked) => changedRequest(asked, { decisionId: randomUUID() }),
      (asked) => changedRequest(asked, {}),
    ];
    for (const [i, change] of others.entries()) {
      const bulk = doctoredItem(method, "cust-0", async (item, asked, ask) => ({
        ...(await ask(change(asked))),
        ...(i < 2 && { idempotencyKey: item.idempotencyKey }),
      }));
      const items = protecting(2).map((item) => ({ ...item, replace: true }));
      const results = await enforcer({ bulk, spoolDirectory: at(`spool-${i}`) }).protectMany(items);
      expect(statusesOf(results)).toEqual(["rejected", "fulfilled"]);
    }
  },
);
