/** The OpenAPI document of `platform.bulk.v1`. */
import type { JsonObject } from "../../base/json.ts";
import type { SdkRoute } from "../../base/vocabulary.ts";
import { type BulkRoute, bulkRoutes } from "../../domain/routes.ts";
import { type Api, createDocument, type DocumentOptions } from "./document.ts";
import { type RouteExample, routeExamples, type World } from "./examples.ts";

const summaries: Readonly<Record<BulkRoute["rpc"], string>> = {
  "BulkDecisionService/PlanProtections": "Decide on many operations and plan their local enforcement",
  "BulkDecisionService/ResolvePolicies": "Resolve authorization and handling guidance for many operations",
  "BulkDecisionService/PlanKeyAccesses": "Authorize the use of many keys",
  "BulkRecordService/RecordEvents": "Record many evidence events",
  "BulkRecordService/RegisterArtifacts": "Register the metadata of many protected artifacts",
};

const answerMembers = ["decision", "execution", "handling", "ingestion", "registration", "warnings"] as const;

/** For items with their own key: the member that holds the body of the single route. */
const itemMembers: Partial<Record<SdkRoute, string>> = { evidence: "event", "artifact-register": "registration" };

/** The examples of the single route, as the items of one call. */
function examplesOf({ single }: BulkRoute, world: World): readonly RouteExample[] {
  const examples = routeExamples[single](world);
  const { service, status, caller, platform_domains } = (examples[0] as RouteExample).answer;
  const itemMember = itemMembers[single];
  const keyOf = (position: number) => `5f0c4f0e-6d0a-4a5e-9d3e-1f2f5e0b7a1${position}`;
  const items = examples.map(({ answer }, position) => {
    const members = answerMembers.flatMap((name) => (answer[name] === undefined ? [] : [[name, answer[name]]]));
    return {
      outcome: "answered",
      ...(itemMember !== undefined && { idempotency_key: keyOf(position) }),
      ...Object.fromEntries(members),
    };
  });
  const summary = "The questions of the single route's examples, and what became of each.";
  const requests = examples.map(({ request = {} }, position) =>
    itemMember === undefined ? request : { idempotency_key: keyOf(position), [itemMember]: request },
  );
  const request = { items: requests, ...(itemMember === undefined && { stop_on_first_deny: false }) };
  return [
    { name: "several", summary, request, answer: { service, status, caller, items, platform_domains } as JsonObject },
  ];
}

function introduction(headerPrefix: string): string {
  return `Asks up to 1,000 questions of one kind in one call. The rules of \`/v1/sdk/\` apply here: the same
credentials, tenants, scopes (those of the single route), refusals and receipts.

- Items are answered in their order. An invalid item is refused by itself, with the error of its single route in
  \`items[].error\`; the others are answered.
- One durable commit carries all records of a call: if the store fails, the whole call is refused with 503, and no
  item is answered.
- Each event and registration has a key, which works like the header \`Idempotency-Key\` of the single route: a
  retried call records nothing twice and gets the first answers again.
- Limits and quotas count items: a call of 1,000 items uses 1,000 requests and, as far as they are answered, records.
- \`${headerPrefix}receipt\` is \`brief\` unless the caller asks for \`full\`, \`none\`, or \`range\`:
  then \`receipt\` of the answer is one proof for all of its items, and \`items[].leaf\` is the place of each.`;
}

const api: Api = {
  title: (service) => `${service}: bulk`,
  summary: "Many questions of one kind in one call",
  description: introduction,
  routes: bulkRoutes.map((route) => {
    const { rpc, path, single } = route;
    return {
      rpc,
      path,
      summary: summaries[rpc] as string,
      like: single,
      examples: (world) => examplesOf(route, world),
    };
  }),
  isFurther: true,
  isBulk: true,
};

/** Makes the document. */
export function createBulkDocument(options: DocumentOptions): JsonObject {
  return createDocument(options, api);
}
