/**
 * Writes `record-relations.ts`, the table of `clients/conformance/vectors` as a module, into `gen` or the given folder.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const table = readFileSync(join(root, "clients/conformance/vectors/record-relations.json"), "utf8").trimEnd();
const text = `/** Written by scripts/record-relations.ts. */\nexport const recordRelations = ${table} as const;\n`;
writeFileSync(join(process.argv[2] ?? join(root, "gen"), "record-relations.ts"), text);
