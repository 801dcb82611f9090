#!/usr/bin/env node
import { prepareRuntime } from "../runtime/runtime.ts";

prepareRuntime();
// Imported dynamically, so that the compile cache covers it.
const { runCommandLine } = await import("./run.ts");
const { processTerminal } = await import("./frame/terminal.ts");

await runCommandLine(process.argv.slice(2), processTerminal);
