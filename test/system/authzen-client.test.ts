/** A third-party AuthZEN client, unmodified, against a gateway with policies of an enforcement point. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { pythonForFile } from "../harness/python.ts";

const python = await pythonForFile("decern==0.6.0");
const client = defaultClient();
const gateway = await gatewayForFile({
  env: { SVC_POLICY_DIR: join(import.meta.dirname, "../fixtures/authzen"), SVC_AUTHZEN: "on" },
  issuer: { clients: [{ ...client, scopes: [...client.scopes, "decisions.delegate"] }] },
});

test("a client from a public package gets its decisions and refusals", async () => {
  const program = join(python.folder, "ask.py");
  writeFileSync(
    program,
    `import json, sys
from decern import Client, DecernError
def ask(token, user, action):
    try:
        client = Client(sys.argv[1], timeout=30, token=token)
        return client.evaluate(subject={"type": "user", "id": user}, action=action, resource={"type": "record", "id": "record-1"}).allowed
    except DecernError as error:
        return error.status_code
asked = [(sys.argv[2], "alice", "read"), (sys.argv[2], "bob", "write"), (sys.argv[3], "alice", "read")]
print(json.dumps([ask(*each) for each in asked]))
`,
  );
  const ordinary = await gateway.token({ scope: client.scopes.join(" ") });
  const out = await python.run("python", [program, gateway.url, await gateway.token(), ordinary]);
  expect(JSON.parse(out)).toEqual([true, false, 403]);
});
