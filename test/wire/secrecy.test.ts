/** What a caller entrusts to the service never reaches its log, nor any answer but its own. */
import { toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { rest, startGateway } from "../harness/gateway.ts";
import { frame } from "../harness/grpc.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const object = Buffer.from("the artifact's own bytes, which no other party may see");
const secrets = {
  label: "label-5f1e0a7c",
  attributeKey: "attribute-key-77aa01",
  attributeValue: "attribute-value-0c9d42",
  purpose: "purpose-81b2d3",
  resourceId: "resource-id-49c1",
  keyReference: "kms://tenant-a/keys/key-ref-3b7e55",
  user: "locator-user-8d",
  password: "locator-password-e1f9",
  signature: "locator-signature-66af",
  outcome: "outcome-2fd0",
  decisionId: "decision-id-made-up-9e",
  memberName: "client_secret_member_name",
  memberValue: "member-value-c4e8",
  path: "path-segment-7d3b",
  query: "query-value-b9a0",
  header: "header-value-1a2f",
  object: object.toString("base64"),
};

test("nothing that callers send is in the log, whatever the outcome of the call", async () => {
  const gateway = await startGateway();
  const session = await h2Connect(gateway.url);
  const token = await gateway.token();
  const clientSecret = gateway.issuer.clients[0]?.clientSecret ?? "";
  const declared = {
    labels: [secrets.label],
    attributes: { [secrets.attributeKey]: secrets.attributeValue },
    purpose: secrets.purpose,
    resource: { kind: "k", id: secrets.resourceId },
  };
  const more: Readonly<Record<string, object>> = {
    "/v1/sdk/key-access-plan": { key_reference: secrets.keyReference },
    "/v1/sdk/artifact-register": {
      artifact_locator: `https://${secrets.user}:${secrets.password}@store.example/o?sig=${secrets.signature}`,
      artifact_object_b64: secrets.object,
      artifact_digest: `sha256:${await sha256(object)}`,
      key_reference: secrets.keyReference,
    },
    "/v1/sdk/evidence": { outcome: secrets.outcome, decision_id: secrets.decisionId },
  };
  // Every answer, for what is never to be repeated in one.
  const answers: string[] = [];
  const statuses = new Set<number>();
  const bad = [
    { [secrets.memberName]: secrets.memberValue },
    { purpose: `${secrets.purpose}\0` },
    { labels: [secrets.label.repeat(64)] },
    { attributes: { [secrets.attributeKey]: secrets.attributeValue.repeat(100) } },
    { operation: secrets.memberValue },
  ];
  for (const { route, body } of sampleCalls()) {
    for (const fault of [{}, ...(body === undefined ? [] : bad)]) {
      const sent = body === undefined ? undefined : { ...body, ...declared, ...more[route], ...fault };
      for (const bearer of [token, `${token}x`]) {
        const answer = await rest(gateway.url + route, {
          token: bearer,
          ...(sent !== undefined && { body: sent }),
          headers: { "x-unknown": secrets.header, cookie: secrets.header },
        });
        statuses.add(answer.status);
        if (answer.status !== 200) answers.push(JSON.stringify([answer.body, ...answer.headers]));
      }
    }
    const method = methodOn(route);
    const sent = body === undefined ? {} : { ...body, ...declared, ...more[route] };
    const message = toBinary(method.desc.input, requestFromRest(method, sent));
    const headers = {
      "content-type": "application/grpc",
      authorization: `Bearer ${token}`,
      "x-unknown": secrets.header,
    };
    await h2Call(session, { path: method.rpcPath, headers, body: frame(message) });
    const broken = await h2Call(session, { path: method.rpcPath, headers, body: frame(message.subarray(0, -1)) });
    answers.push(JSON.stringify(broken.trailers));
  }
  const get = (line: string, headers: string[] = []) => h1Exchange(gateway.url, h1Request(line, headers));
  for (const answer of [
    await get(`GET /${secrets.path}?q=${secrets.query}`),
    await get(`GET /v1/sdk/whoami?access_token=${token}&q=${secrets.query}`),
    await get(`GET /v1/sdk/%${secrets.path}`),
    await get("GET /v1/sdk/whoami", [`Authorization: Basic ${btoa(`${secrets.user}:${secrets.password}`)}`]),
    await get("GET /v1/sdk/whoami", [`X-Svc-Tenant-Id: ${secrets.header}`, `Authorization: Bearer ${token}`]),
    await get("GET /v1/sdk/whoami", [`X-Request-Id: ${secrets.header}!`]),
    await get(`BREW-${secrets.path} /v1/sdk/whoami`),
    await get("GET /v1/sdk/whoami", [`Bad Header${secrets.header}: x`]),
  ])
    answers.push(JSON.stringify([answer?.text, ...(answer?.headers ?? [])]));
  await gateway.stop();

  // The run was not for nothing: calls of every kind were logged, at the most talkative level.
  expect([...statuses].sort()).toEqual([200, 400, 401]);
  const log = gateway.logged.join("");
  // Of refusals for one reason 20 a second have a line.
  expect(gateway.logged.length).toBeGreaterThan(40);
  for (const text of ['"code":"ok"', '"reason":"invalid_request"', '"reason":"invalid_token"', '"protocol":"grpc"'])
    expect(log).toContain(text);

  const credentials = [token, ...token.split("."), clientSecret, btoa(`${secrets.user}:${secrets.password}`)];
  for (const [name, secret] of [
    ...Object.entries(secrets),
    ...credentials.map((text) => ["credentials", text] as const),
  ]) {
    expect(log.includes(secret), `${name} in the log`).toBe(false);
    // A member's name is repeated to the caller that sent it, and to no other.
    if (name !== "memberName") expect(answers.join("").includes(secret), `${name} in a refusal`).toBe(false);
  }
});

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex");
}
