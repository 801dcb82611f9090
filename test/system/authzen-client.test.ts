/** A third-party AuthZEN client, unmodified, against a gateway with policies of an enforcement point. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ordinaryScopes, startAuthzen } from "../harness/authzen.ts";
import { forFile } from "../harness/lifetimes.ts";
import { pythonForFile } from "../harness/python.ts";

const python = await pythonForFile("decern==0.6.0");
const gateway = await forFile(startAuthzen());

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
  const ordinary = await gateway.token({ scope: ordinaryScopes.join(" ") });
  const out = await python.run("python", [program, gateway.url, await gateway.token(), ordinary]);
  expect(JSON.parse(out)).toEqual([true, false, 403]);
});
