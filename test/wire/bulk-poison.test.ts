/**
 * 1,000 items of which some are poison: what an item is answered is what its single route answers to the same text, whatever
 * it is, and the items beside it are answered as if it were not there.
 */
import { toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { bulkRoutes } from "../../src/domain/routes.ts";
import { gatewayForFile, type RestAnswer, rest } from "../harness/gateway.ts";
import { requestOf } from "../harness/generate.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest, restTextOf } from "../harness/methods.ts";

type Any = RestAnswer["body"];

const gateway = await gatewayForFile({ env: { SVC_BULK: "on", SVC_MAX_BULK_BODY_BYTES: String(8 * 1024 * 1024) } });
const token = await gateway.token();

const ask = (path: string, body: string) => rest(gateway.url + path, { token, body });
const deep = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
const described = '"workload":{"application":"a"},"resource":{"kind":"b"}';

/** Texts that one item may be, and that others have to survive. */
const poison: readonly string[] = [
  ...["null", "7", '"x"', "[]", "{}", "[{}]", "tru", "NaN", "'a'", "+1", "0x1"],
  ...['{"a":1,}', '{"a":1]', "{a:1}", "/**/{}"],
  ...['"\\x"', '"\\ud800"', '"\u0001"', deep(100), deep(5_000), `${'{"x":'.repeat(3_000)}1${"}".repeat(3_000)}`],
  `{"__proto__":{"operation":"protect"},${described}}`,
  `{"operation":"protect",${described},"constructor":{}}`,
  `{"operation":"protect","operation":"access",${described}}`,
  `{"operation":"protect","\\u006fperation":"access",${described}}`,
  `{"operation":"protect","workload":{"application":"\\udc00\\ud800"},"resource":{"kind":"b"}}`,
  `{"operation":"protect","workload":{"application":"\\u0000"},"resource":{"kind":"b"}}`,
  `{"operation":1,${described}}`,
  `{"operation":"PROTECTION_OPERATION_PROTECT",${described}}`,
  ...["9007199254740991", "9007199254740992", "1e400", "-1", "1.5", "-0", '"1"', "[1]", "true"].map(
    (size) => `{"operation":"protect",${described},"content_size_bytes":${size}}`,
  ),
  `{"operation":"protect",${described},"labels":[${Array(65).fill('"l"').join(",")}]}`,
  `{"operation":"protect",${described},"attributes":{"__proto__":"x","toString":"y"}}`,
  `{"operation":"protect",${described},"purpose":"${"p".repeat(300_000)}"}`,
  `\ufeff{"operation":"protect",${described}}`,
  `{"operation":"protect",${described}}\u00a0`,
];

/** Reason and rules of a refusal, with the fields that are the item's own. */
const said = ({ reason, violations = [] }: Any, member: string) => ({
  reason,
  violations: violations.map(({ field, rule }: Any) => [field.replace(new RegExp(`^${member}\\.?`), ""), rule]),
});

describe.each(bulkRoutes)("$path", ({ path, like: single }) => {
  const route = `/v1/sdk/${single}`;
  const member = /^\/v1\/bulk\/(evidence|artifact)/.exec(path) && (single === "evidence" ? "event" : "registration");
  const sample = JSON.stringify(sampleCalls().find((call) => call.route === route)?.body);
  let keys = 0;
  const itemOf = (text: string) =>
    member === null ? text : `{"idempotency_key":"${single}-${keys++}","${member}":${text}}`;

  test("each item is answered as its text is on the single route, and the items beside it are answered", {
    timeout: 60_000,
  }, async () => {
    const { desc } = methodOn(route);
    const random = fc.sample(requestOf(desc.input), { numRuns: 60, seed: 11 });
    const texts = [...poison, ...random.map((message) => restTextOf(desc.input, message))];
    const every = Math.floor(1000 / texts.length);
    const items = Array.from({ length: 1000 }, (_, i) =>
      i % every === 0 && i / every < texts.length ? (texts[i / every] as string) : sample,
    );
    const { status, body } = await ask(path, `{"items":[${items.map(itemOf).join(",")}]}`);
    expect([status, body.items?.length]).toEqual([200, 1000]);
    const places: number[] = [];
    for (const [i, item] of (body.items as Any[]).entries()) {
      const receipt = (item.decision ?? item.ingestion ?? item.registration)?.receipt;
      if (receipt !== undefined) places.push(receipt.leaf_index);
      if (items[i] === sample) {
        expect(item.outcome, `beside ${i}`).toBe("answered");
        continue;
      }
      const text = items[i] as string;
      // In a member null is what is not there.
      if (text === "null" && member !== null) continue;
      const alone = await ask(route, text);
      const what = text.slice(0, 200);
      expect(item.outcome, what).toBe(alone.status === 200 ? "answered" : "refused");
      if (alone.status !== 200) expect(said(item.error, member ?? ""), what).toEqual(said(alone.body.error, ""));
    }
    // All in one row: nothing of what was refused is in the log.
    expect(places).toEqual(places.map((_, i) => (places[0] as number) + i));
  });

  test("a gRPC message that is cut at any byte is refused, and records nothing", { timeout: 60_000 }, async () => {
    const method = methodOn(path);
    const members: Readonly<Record<string, object>> = {
      evidence: { event_type: "protect" },
      "key-access-plan": { operation: "wrap" },
      "artifact-register": { operation: "protect", artifact_profile: "tdf", artifact_digest: "sha256:0" },
    };
    const text = { ...(members[single] ?? { operation: "protect" }), ...JSON.parse(`{${described}}`) };
    const item = JSON.parse(itemOf(JSON.stringify(text)));
    const whole = frame(toBinary(method.desc.input, requestFromRest(method, { items: [item, item] })));
    const session = await h2Connect(gateway.url);
    const headers = { "content-type": "application/grpc", authorization: `Bearer ${token}` };
    const next = async () => {
      const { body } = await ask("/v1/sdk/evidence", `{"event_type":"protect",${described}}`);
      return body.ingestion.receipt.leaf_index as number;
    };
    const before = await next();
    for (let end = 0; end < whole.length; end++) {
      const { trailers } = await h2Call(session, { path: method.rpcPath, headers, body: whole.subarray(0, end) });
      expect(refusalInTrailers(trailers)?.reason, String(end)).toBe("invalid_request");
    }
    expect(await next()).toBe(before + 1);
    const { trailers } = await h2Call(session, { path: method.rpcPath, headers, body: whole });
    expect(refusalInTrailers(trailers)).toBeUndefined();
  });
});
