/** What the organisation knows: from files to decisions, in force at once and as a whole, and again in replays. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { wireClients } from "../harness/clients.ts";
import { type Gateway, rest, startGateway, unpolled } from "../harness/gateway.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { entity, entitySchema, type Json, uid } from "../unit/policy/entities.ts";

const route = "/v1/sdk/protection-plan";
const plan = {
  operation: "access",
  workload: { application: "wards" },
  resource: { kind: "letter" },
  labels: ["blue"],
};
const classified = entity("Label", "classified");
const labelsWith = (...parents: readonly Json[]) =>
  JSON.stringify([classified, entity("Label", "blue", { rank: 1 }, parents)]);
const files = {
  "manifest.yaml": `platform: platform
tenants: { "*": default }
entities: { schema: org.cedarschema, files: [labels.json], labels: Org::Label }
`,
  "org.cedarschema": entitySchema,
  "labels.json": labelsWith(),
  "platform/all.cedar": '@id("all") permit (principal, action, resource);\n',
  "default/all.cedar": '@id("all") permit (principal, action, resource);\n',
  "default/classified.cedar": `@id("classified") forbid (principal, action, resource)
when { context.claimed.label_set in Org::Label::"classified" };\n`,
};
const denied = { allow: false, reasons: ["tenant/classified"] };
const allowed = { allow: true };

let policies: string;
let gateway: Gateway;

beforeEach(async () => {
  policies = await mkdtemp(join(tmpdir(), "entities-"));
  for (const [file, text] of Object.entries(files)) await write(file, text);
  gateway = await startGateway({ env: { SVC_POLICY_DIR: policies }, overrides: unpolled });
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await gateway.stop();
  await rm(policies, { recursive: true });
});

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(policies, file)), { recursive: true });
  await writeFile(join(policies, file), text);
}

async function decide() {
  const { body } = await rest(gateway.url + route, { token: await gateway.token(), body: plan });
  return body.decision;
}

test("what a file says of a label decides from the reload on, over every protocol; a bad one changes nothing", async () => {
  const clients = wireClients(gateway.url);
  const decideEverywhere = async () => {
    const method = methodOn(route);
    const headers = { authorization: `Bearer ${await gateway.token()}` };
    const outcomes = await Promise.all(
      clients.map(async (client) => await client.call(method, requestFromRest(method, plan), headers)),
    );
    return outcomes.map((outcome) => JSON.stringify(outcome).match(/"allow":(true|false)/)?.[1]);
  };
  try {
    expect(await decide()).toMatchObject(allowed);
    await write("labels.json", labelsWith(uid("Label", "classified")));
    await gateway.app.reload();
    expect(await decide()).toMatchObject(denied);
    const before = await decide();
    for (const bad of ["[{]", labelsWith(uid("Label", "nowhere")), labelsWith(uid("Person", "classified"))]) {
      await write("labels.json", bad);
      await gateway.app.reload().catch(() => {});
      expect(await decide()).toMatchObject({ ...denied, policy_revision: before.policy_revision });
      const { body } = await rest(`${gateway.opsUrl}/readyz`, {});
      expect(JSON.stringify(body)).toContain("a newer policy set was refused");
    }
    expect(new Set(await decideEverywhere())).toEqual(new Set(["false"]));
    await write("labels.json", labelsWith());
    await gateway.app.reload();
    expect(new Set(await decideEverywhere())).toEqual(new Set(["true"]));
  } finally {
    for (const client of clients) client.close();
  }
});
