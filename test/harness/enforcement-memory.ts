/**
 * Works on one large file in a process of its own, and prints its peak of memory. Arguments: operation, input, output; to
 * `verify`, the output that `sign` made, too.
 */

import { createEnforcer, localKey, localSigningKey, localTdfKey } from "../../clients/typescript/src/enforce/index.ts";
import { permissivePlatform } from "./permissive-platform.ts";

const [operation, input = "", output = "", signature = ""] = process.argv.slice(2);
const enforcer = createEnforcer({
  client: permissivePlatform(),
  workload: { application: "memory" },
  keys: [
    localKey("local-old", Buffer.alloc(32, 1)),
    localKey("local-new", Buffer.alloc(32, 2)),
    // RFC 8032 section 7.1, test 1.
    localSigningKey("local-signer", {
      kty: "OKP",
      crv: "Ed25519",
      x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
      d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    }),
    // RFC 7515 appendix A.3.1.
    localTdfKey(
      "local-tdf",
      {
        kty: "EC",
        crv: "P-256",
        x: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        d: "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
      },
      { url: "https://kas.example.com" },
    ),
  ],
  attributeNamespace: "example.com",
  spoolDirectory: `${output}.spool`,
});
const startedAt = performance.now();
if (operation === "protect") await enforcer.protect({ input, output, resource: { kind: "test" } });
else if (operation === "sign")
  await enforcer.protect({ profile: "detached_signature", input, output, resource: { kind: "test" } });
else if (operation === "verify") await enforcer.open({ input, output, signature });
else if (operation === "tdf-protect")
  await enforcer.protect({ profile: "tdf", input, output, resource: { kind: "test" } });
else if (operation === "tdf-open") await enforcer.open({ profile: "tdf", input, output });
else if (operation === "open") await enforcer.open({ input, output });
else await enforcer.rewrap({ input, output, newKeyReference: "local-new" });
const elapsedMs = performance.now() - startedAt;
// Kibibytes, by getrusage(2).
process.stdout.write(JSON.stringify({ peakBytes: process.resourceUsage().maxRSS * 1024, elapsedMs }));
