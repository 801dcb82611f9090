/** Protects or opens one large file in a process of its own, and prints its peak of memory. Arguments: operation, input, output. */

import { createEnforcer } from "../../clients/typescript/src/enforce/index.ts";
import { localKey } from "../../clients/typescript/src/enforce/keys.ts";
import { permissivePlatform } from "./permissive-platform.ts";

const [operation, input = "", output = ""] = process.argv.slice(2);
const enforcer = createEnforcer({
  client: permissivePlatform(),
  workload: { application: "memory" },
  keys: [localKey("local-old", Buffer.alloc(32, 1)), localKey("local-new", Buffer.alloc(32, 2))],
  spoolDirectory: `${output}.spool`,
});
const startedAt = performance.now();
if (operation === "protect") await enforcer.protect({ input, output, resource: { kind: "test" } });
else if (operation === "open") await enforcer.open({ input, output });
else await enforcer.rewrap({ input, output, newKeyReference: "local-new" });
const elapsedMs = performance.now() - startedAt;
// Kibibytes, by getrusage(2).
process.stdout.write(JSON.stringify({ peakBytes: process.resourceUsage().maxRSS * 1024, elapsedMs }));
