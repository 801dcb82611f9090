/** An API that a deployment has to switch on is not served before that, on any protocol, and no document names it. */
import { expect, test } from "vitest";
import { furtherTable } from "../../src/app/further-apis.ts";
import { furtherNames } from "../../src/domain/routes.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { refusalInConnect } from "../harness/grpc.ts";
import { furtherMethods } from "../harness/methods.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();
const paths = furtherMethods.map(({ restPath }) => restPath);
const services = Object.values(furtherTable).flatMap((row) => [...row.services.keys()]);

test.each([
  ...furtherNames.flatMap((name) => [`/openapi-${name}.json`, `/openapi-${name}.yaml`]),
  "/.well-known/authzen-configuration",
  ...paths,
])("%s is no route by default", async (path) => {
  const { status, body } = await rest(gateway.url + path, { token, body: {} });
  expect([status, body.error.reason]).toEqual([404, "no_route"]);
});

test.each(services.flatMap(({ typeName, methods }) => methods.map(({ name }) => `/${typeName}/${name}`)))(
  "%s is no method by default",
  async (path) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await fetch(gateway.url + path, { method: "POST", headers, body: "{}" });
    const refusal = refusalInConnect(await response.text());
    expect([response.status, refusal]).toMatchObject([404, { code: "unimplemented", reason: "no_route" }]);
  },
);

test.each(["/v1/sdk/capabilities", "/openapi.json"])("%s names no API that is off", async (path) => {
  const { body } = await rest(gateway.url + path, { token });
  expect(JSON.stringify(body)).not.toMatch(/bulk|authzen|access\/v1/);
  for (const path of paths) expect(JSON.stringify(body)).not.toContain(path);
});
