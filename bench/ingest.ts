/**
 * How many events a second are recorded, over REST with full receipts. `node bench/ingest.ts [--store sqlite]
 * [--seconds 5]`: by number of callers, on the embedded store. `--store postgres`: by tenants and replicas, on a
 * PostgreSQL that it starts. Needs wrk. Gateways and load generator share the machine's cores.
 */
import { parseArgs } from "node:util";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: { store: { type: "string", default: "sqlite" }, seconds: { type: "string", default: "5" } },
});
requireTools("wrk", "taskset");
const seconds = Number(values.seconds);
if (values.store === "sqlite") await (await import("./ingest-callers.ts")).measureCallers(seconds);
else if (values.store === "postgres") await (await import("./ingest-tenants.ts")).measureTenants(seconds);
else throw new Error("--store is sqlite or postgres");
