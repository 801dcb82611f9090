/** A day's work of two workloads, allowed and denied, so that the console and searches have something to show. */
import { createHash } from "node:crypto";
import { sampleCalls } from "./requests.ts";

export interface SampleOptions {
  /** Base URL of the service. */
  readonly url: string;
  readonly token: string;
  /** Ids of the resources that are worked on. Default: three customers. */
  readonly resources?: readonly string[];
  /** Why the data is used. */
  readonly purpose?: string;
}

type Body = Readonly<Record<string, unknown>>;

/** Protects a file for each resource, opens it, and tries what policies forbid. Rejects if a call is not answered. */
export async function recordSamples({ url, token, resources, purpose = "quarterly-audit" }: SampleOptions) {
  const bodies = new Map(sampleCalls().map(({ route, body }) => [route, body ?? {}]));
  const call = async (name: string, changes: Body) => {
    const route = `/v1/sdk/${name}`;
    const response = await fetch(url + route, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ ...bodies.get(route), purpose, ...changes }),
    });
    if (!response.ok) throw new Error(`${route} answered ${response.status}: ${await response.text()}`);
    // biome-ignore lint/suspicious/noExplicitAny: answers of several shapes are read here, by their members' names.
    return (await response.json()) as any;
  };
  for (const id of resources ?? ["cust-8841", "cust-8842", "cust-9007"]) {
    const resource = { kind: "customer-record", id };
    const about = { resource, artifact_digest: sampleDigest(id) };
    const { decision } = await call("protection-plan", { resource });
    const cited = { ...about, decision_id: decision.decision_id };
    await call("artifact-register", cited);
    await call("evidence", cited);
    const opened = await call("policy-resolve", { ...about, operation: "access" });
    await call("evidence", { ...about, decision_id: opened.decision.decision_id, event_type: "access" });
    // Denied: the data would leave its region, or be rewrapped by an application that does not own it.
    await call("policy-resolve", { ...about, attributes: { region: "eu", processing_region: "us" } });
    await call("protection-plan", { ...about, operation: "rewrap", attributes: { owner_application: "billing" } });
    // Allowed, and nothing says that it was done.
    await call("policy-resolve", { ...about, operation: "access" });
  }
}

/** Content of the sample artifact of a resource. */
export function sampleContent(id: string): string {
  return `sample artifact of ${id}\n`;
}

export function sampleDigest(id: string): string {
  return `sha256:${createHash("sha256").update(sampleContent(id)).digest("hex")}`;
}
