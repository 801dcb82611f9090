import { test } from "vitest"; import { writeFileSync } from "node:fs";
import { startGateway, rest } from "/work/main/test/harness/gateway.ts"; import { sampleCalls } from "/work/main/dev/requests.ts";
test("x", async () => { const g = await startGateway(); const token = await g.token(); const out: any = {}; let id: string|undefined;
 for (let i=0;i<8;i++){ const c = sampleCalls(id)[i]!; const a = await rest(g.url + c.route, { token, ...(c.body && { body: c.body }) }); out[c.route] = a.body; id ??= a.body.decision?.decision_id; }
 const obj = Buffer.from("TDF3 sealed payload of cust-8841\n"); const { createHash } = await import("node:crypto");
 out.object = [obj.toString("base64"), createHash("sha256").update(obj).digest("hex")];
 out.withObject = (await rest(g.url + "/v1/sdk/artifact-register", { token, body: { operation:"protect", workload:{application:"payroll-export"}, resource:{kind:"customer-record", id:"cust-8841"}, artifact_profile:"tdf", artifact_digest:"sha256:"+out.object[1], artifact_object_b64: out.object[0], decision_id: "01890a5d-ac96-774b-bcce-b302099a8057" } })).body;
 out.denied = (await rest(g.url + "/v1/sdk/protection-plan", { token, body: { operation:"access", workload:{application:"payroll-export", environment:"development"}, resource:{kind:"customer-record", id:"cust-8841"}, labels:["confidential"] } })).body;
 out.noToken = (await rest(g.url + "/v1/sdk/whoami", {})).body;
 writeFileSync("/tmp/oa/capture.json", JSON.stringify(out,null,1)); await g.stop(); });
