/**
 * The second part of the demo: protects a file in this process, opens it as the permitted workload, shows refusals for
 * others, rewraps it, shows that removing its label has no effect, verifies its receipts offline, and reads its lineage
 * from the ledger.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { platformOf } from "../clients/typescript/src/enforce/client-platform.ts";
import {
  createEnforcer,
  createKeyFile,
  EnforcementError,
  type Enforcer,
  keyFile,
  type Platform,
  verifyArtifact,
} from "../clients/typescript/src/enforce/index.ts";
import {
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  workloadInterceptors,
} from "../clients/typescript/src/index.ts";
import { createHttpClient } from "../clients/typescript/src/node.ts";
import { logKeysOf, readLineage, writeCommandSettings } from "./demo-ledger.ts";
import { defaultClient, type IssuerClient } from "./issuer.ts";
import type { Stack } from "./stack.ts";

const tenant = "tenant-c";

/** Workloads of a tenant whose decisions use registered artifacts; one of them may read restricted data. */
export function storyClients(): readonly IssuerClient[] {
  const base = { ...defaultClient(), tenantId: tenant };
  return [
    { ...base, clientId: "payroll-c", scopes: [...base.scopes, "restricted.read"] },
    { ...base, clientId: "billing-c", principalId: "billing-service" },
  ];
}

/** A workload of the story: its own credentials, shared keys. */
function workloadOf(stack: Stack, clientId: string): Platform {
  const { clientSecret, scopes } =
    stack.issuer.clients.find((client) => client.clientId === clientId) ?? defaultClient();
  const http = createHttpClient();
  const tokens = clientCredentials({ issuer: stack.issuer.url, clientId, clientSecret, scopes, http });
  const interceptors = workloadInterceptors({ tokens });
  return platformOf(createPlatformClient(createRestTransport({ baseUrl: stack.url, http, interceptors })));
}

/** Prints the story, one line for each step. Resolves with the number of failed steps. */
export async function tellStory(stack: Stack, dataDir: string): Promise<number> {
  const say = (text: string) => void process.stdout.write(`${text}\n`);
  const at = (name: string) => join(dataDir, "story", name);
  await mkdir(join(dataDir, "story"));
  let failures = 0;
  // Fits a terminal of default width.
  const line = (what: string, result: string) => say(`  ${what.padEnd(45)} ${result}`);
  const step = async (what: string, work: () => Promise<string>) => {
    try {
      line(what, await work());
    } catch (error) {
      failures++;
      line(what, `NO: ${error instanceof Error ? error.message : error}`);
    }
  };
  /** A step that the named policy must refuse. */
  const refused = (what: string, failure: EnforcementError["failure"], work: () => Promise<unknown>) =>
    step(what, async () => {
      const error = await work().then(
        () => undefined,
        (error: unknown) => error,
      );
      if (!(error instanceof EnforcementError) || error.failure !== failure) throw error ?? new Error("it was done");
      return error.message.replace(/^the platform denied it: (platform|tenant)\//, "");
    });

  for (const name of ["payroll", "partner"]) await createKeyFile(at(`${name}.key`), `local-${name}`);
  const keys = [await keyFile(at("payroll.key")), await keyFile(at("partner.key"))];
  const [payroll, billing] = [workloadOf(stack, "payroll-c"), workloadOf(stack, "billing-c")];
  const resource = { kind: "customer-record", id: "cust-8841" };
  const purpose = "quarterly-audit";
  // A tenant has a log from its first record on.
  await payroll.planProtection({
    ...{ operation: "protect", preferred_artifact_profile: "envelope", workload: { application: "payroll" }, resource },
    ...{ labels: [], attributes: {}, understood_obligations: [] },
  });
  const settings = await writeCommandSettings(stack, dataDir);
  const logKeys = await logKeysOf(settings, tenant);
  const enforcerOf = (platform: Platform, application: string, isHonest = true): Enforcer =>
    createEnforcer({
      client: platform,
      workload: { application, environment: "production" },
      keys,
      spoolDirectory: at(`spool-${application}`),
      ...(isHonest && { logKeys }),
    });
  const [payrollEnforcer, billingEnforcer] = [enforcerOf(payroll, "payroll"), enforcerOf(billing, "billing")];
  const plaintext = randomBytes(8 * 1_048_576);
  await writeFile(at("report.pdf"), plaintext);
  const sealed = { input: at("report.sealed"), purpose };
  let digest = "";

  say("\nA file of 8 MiB, labelled restricted, is protected in this process. The service");
  say("sees its metadata, and never a byte of it. Two workloads hold its wrapping key;");
  say("only payroll has the scope restricted.read.\n");
  await step("payroll protects it", async () => {
    const request = { input: at("report.pdf"), output: at("report.sealed"), resource, labels: ["restricted"], purpose };
    const { artifactDigest } = await payrollEnforcer.protect(request);
    digest = artifactDigest;
    return `${artifactDigest.slice(0, 23)}…`;
  });
  await step("payroll opens it", async () => {
    await payrollEnforcer.open({ ...sealed, output: at("opened.pdf") });
    if (!(await readFile(at("opened.pdf"))).equals(plaintext)) throw new Error("the file is another one");
    return "the same bytes";
  });
  say("\nWhat is refused, and the policy that refuses it:\n");
  const output = at("never.pdf");
  await refused("payroll opens it without a purpose", "not_permitted", () =>
    payrollEnforcer.open({ input: sealed.input, output }),
  );
  await refused("billing opens it with the same key", "not_permitted", () =>
    billingEnforcer.open({ ...sealed, output }),
  );
  await refused("billing changes the label in the file", "not_permitted", async () => {
    const bytes = await readFile(sealed.input);
    bytes.write("unlimited!", bytes.indexOf("restricted"));
    await writeFile(at("stripped.sealed"), bytes);
    return billingEnforcer.open({ ...sealed, input: at("stripped.sealed"), output });
  });
  await refused("billing omits the label from its question", "not_permitted", () => {
    const silent = <Question extends object>(question: Question) => ({ ...question, labels: [] });
    const without: Platform = {
      ...billing,
      planProtection: (question) => billing.planProtection(silent(question)),
      planKeyAccess: (question) => billing.planKeyAccess(silent(question)),
    };
    // With the log's keys, the library would detect that the record is about another question.
    return enforcerOf(without, "billing", false).open({ ...sealed, output });
  });
  await refused("billing rewraps it for another key", "not_permitted", () =>
    billingEnforcer.rewrap({ ...sealed, output: at("stolen.sealed"), newKeyReference: "local-partner" }),
  );
  say("\nThe file for a partner, and what anyone can verify of both offline:\n");
  await step("payroll rewraps it for the partner's key", async () => {
    const request = { ...sealed, output: at("partner.sealed"), newKeyReference: "local-partner" };
    const { artifactDigest } = await payrollEnforcer.rewrap(request);
    return `${artifactDigest.slice(0, 23)}…`;
  });
  await step("it opens with the partner's key", async () => {
    await payrollEnforcer.open({ input: at("partner.sealed"), output: at("partner.pdf"), purpose });
    if (!(await readFile(at("partner.pdf"))).equals(plaintext)) throw new Error("the file is another one");
    return "the same bytes";
  });
  for (const name of ["report.sealed", "partner.sealed"])
    await step(`receipts of ${name}, by the log's key`, async () => {
      const { records } = await verifyArtifact({ artifact: at(name), logKeys });
      return `${records.length} records proven`;
    });
  say("\nWhat the ledger has of the file, refusals too, verified with the same key:\n");
  await step("records that belong to it", async () => {
    const steps = await readLineage(settings, tenant, digest, logKeys);
    for (const { recorded_at, kind, operation = "", outcome = "", principal = "" } of steps)
      line(`${recorded_at.slice(11, 19)}  ${[kind, operation, outcome].join(" ")}`, principal);
    if (steps.length === 0) throw new Error("nothing");
    return String(steps.length);
  });
  say(failures === 0 ? "\nAll of it was as it should be." : `\nSteps that were NOT as they should be: ${failures}.`);
  return failures;
}
