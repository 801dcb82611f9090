import { prepareRuntime } from "./runtime.ts";

prepareRuntime();
// Imported afterwards, so that the compile cache has it.
const { runCommandLine } = await import("./cli/run.ts");
const { processTerminal } = await import("./cli/terminal.ts");

await runCommandLine(["serve", ...process.argv.slice(2)], processTerminal);
