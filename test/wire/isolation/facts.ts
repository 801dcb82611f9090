/**
 * Known facts of one artifact that two tenants registered, each with its own words: neither the other tenant nor its
 * operator sees any of them.
 */
import { createHash, randomBytes } from "node:crypto";
import { expect } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { runCommandLine } from "../../../src/cli/run.ts";
import { recordIn } from "../../harness/ledger.ts";
import { settingsForTest } from "../../unit/cli/surroundings.ts";
import { captureTerminal } from "../../unit/cli/terminal.ts";
import { factsKind } from "./policy-sets.ts";
import { answerOf, bearer, type IsolationRow, receiptOf, type Wire, type World } from "./world.ts";

interface Side {
  readonly tenant: TenantId;
  /** In everything that the tenant registers, claims and is, but its name. */
  readonly tag: string;
  /** What the tenant saw: answers with their records opened, and refusals. */
  readonly seen: string[];
  readonly requestIds: string[];
}

async function factsAreOwn(world: World, wire: Wire): Promise<void> {
  const sides = world
    .tenants()
    .slice(0, 2)
    .map((tenant): Side => {
      return { tenant: tenant as TenantId, tag: randomBytes(8).toString("hex"), seen: [], requestIds: [] };
    });
  const [own, other] = sides as [Side, Side];
  const named = { artifact_digest: `sha256:${createHash("sha256").update(own.tag).digest("hex")}` };
  const claimsOf = ({ tag }: Side) => ({
    principal_id: `principal-${tag}`,
    sub: `subject-${tag}`,
    team: `team-${tag}`,
  });

  const call = async (side: Side, route: string, body: object, claims: object = claimsOf(side)) => {
    const requestId = `request-${side.requestIds.length}-of-${side.tag}`;
    side.requestIds.push(requestId);
    const headers = {
      ...bearer(world.token(side.tenant, claims as Record<string, unknown>)),
      "x-request-id": requestId,
    };
    const outcome = await wire.call(route, body, headers);
    side.seen.push(JSON.stringify(outcome));
    if ("answer" in outcome && JSON.stringify(outcome).includes('"record"')) {
      side.seen.push(JSON.stringify(recordIn(outcome.answer)));
    }
    return outcome;
  };
  const describe = ({ tag }: Side) => ({
    workload: { application: `application-${tag}` },
    resource: { kind: factsKind, id: `resource-${tag}` },
  });
  const question = (side: Side) => ({
    operation: "access",
    ...describe(side),
    ...named,
    understood_obligations: ["tell"],
  });
  const keyQuestion = (side: Side) => ({
    ...question(side),
    operation: "unwrap",
    key_reference: `kms://${side.tag}/1`,
  });
  const registration = (side: Side) => ({
    ...{ operation: "protect", artifact_profile: "tdf", ...describe(side), ...named },
    labels: [`label-${side.tag}`],
    attributes: { notify: `notify-${side.tag}`, [`name-${side.tag}`]: `value-${side.tag}` },
    key_reference: `kms://${side.tag}/1`,
  });
  /** Registers the artifact, asks in every way, and is refused in some. Gives the ids of the decisions. */
  const use = async (side: Side) => {
    const registered = answerOf(await call(side, "/v1/sdk/artifact-register", registration(side)));
    const decisions: string[] = [];
    for (const route of ["protection-plan", "policy-resolve"])
      decisions.push(answerOf(await call(side, `/v1/sdk/${route}`, question(side))).decision.decision_id);
    decisions.push(answerOf(await call(side, "/v1/sdk/key-access-plan", keyQuestion(side))).decision.decision_id);
    const refusals: readonly (readonly [string, object, object?])[] = [
      ["/v1/sdk/protection-plan", { ...question(side), understood_obligations: [] }],
      ["/v1/sdk/protection-plan", { ...question(side), artifact_digest: "no digest" }],
      ["/v1/sdk/protection-plan", question(side), { ...claimsOf(side), scope: "platform-api.access" }],
      ["/v1/sdk/protection-plan", question(side), { ...claimsOf(side), principal_id: "" }],
      ["/v1/sdk/artifact-register", { ...registration(side), decision_id: decisions[0] }],
    ];
    for (const [route, body, claims] of refusals) await call(side, route, body, claims);
    return { decisions, recordId: receiptOf(registered).record_id };
  };
  const [first, second] = [await use(own), await use(other)];

  // What is known decides, and comes out where it may: the search below would find it.
  const { decision } = answerOf(await call(other, "/v1/sdk/protection-plan", question(other)));
  expect(decision.obligations).toEqual([
    { id: "tell", parameters: { key: `kms://${other.tag}/1`, owner: `notify-${other.tag}` } },
  ]);
  // The first one's facts are of no use to the second, also where each cites or names what is the other's.
  const foreign = { ...registration(other), decision_id: first.decisions[0] };
  await call(other, "/v1/sdk/artifact-register", foreign);
  await call(other, "/v1/sdk/key-access-plan", { ...keyQuestion(other), key_reference: `kms://${other.tag}/2` });

  // Neither of the records opens any more: every question is refused, and says nothing of what was registered.
  await world.store.execute(
    `CREATE TABLE whole AS SELECT tenant_id, record_id, sealed FROM entries WHERE ${among(first, second)}`,
  );
  await world.store.execute(`UPDATE entries SET sealed = substr(sealed, 1, 40) WHERE ${among(first, second)}`);
  for (const side of sides)
    for (const route of ["protection-plan", "policy-resolve"])
      expect(await call(side, `/v1/sdk/${route}`, question(side))).toHaveProperty("refusal");
  await world.store.execute(
    `UPDATE entries SET sealed = (SELECT whole.sealed FROM whole WHERE whole.record_id = entries.record_id)
      WHERE ${among(first, second)}`,
  );
  await world.store.execute("DROP TABLE whole");

  const explained = await explanations(world, other, first.decisions, second.decisions);
  expect(explained).toContain(`notify-${other.tag}`);
  expect(explained).toContain(`team-${other.tag}`);
  for (const text of [...other.seen, explained]) expect(text).not.toContain(own.tag);
  for (const text of own.seen) expect(text).not.toContain(other.tag);
}

const among = (...uses: readonly { readonly recordId: string }[]) =>
  `entries.record_id IN (${uses.map(({ recordId }) => `'${recordId}'`).join(", ")})`;

/** What an operator of one tenant sees: at its own decisions, and at ids that are the other's. */
async function explanations(
  { store, policies }: World,
  { tenant, requestIds, tag }: Side,
  foreign: readonly string[],
  own: readonly string[],
): Promise<string> {
  settingsForTest({ ...store.settings, SVC_POLICY_DIR: policies });
  const { terminal, written } = captureTerminal();
  const run = (...words: readonly string[]) => runCommandLine(["policy", ...words, "--tenant", tenant], terminal);
  const [decision = ""] = own;
  await run("explain", "--decision", decision);
  await run("explain", "--request-id", requestIds[3] ?? "", "--json");
  await run("replay", "--decision", decision, "--json");
  for (const command of ["explain", "replay"]) await run(command, "--decision", foreign[0] ?? "", "--json");
  await run("explain", "--request-id", `request-1-of-${tag}`.replace(tag, "nobody"));
  return written.out + written.err;
}

export const factRows: readonly IsolationRow[] = [
  {
    thing: "what was registered, wherever it shows",
    tables: ["artifact_keys", "registered_artifacts"],
    check: factsAreOwn,
  },
];
