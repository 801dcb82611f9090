import { prepareRuntime } from "./runtime/runtime.ts";

prepareRuntime();
// A supervisor may reload a service that is still starting: without a listener, SIGHUP would end it.
process.on("SIGHUP", () => {});
// Imported afterwards, so that the compile cache has it; without the commands that a service has no use for.
const { programOf, runProgram, serveCommand } = await import("./cli/run.ts");
const { processTerminal } = await import("./cli/frame/terminal.ts");

const program = programOf(processTerminal, [serveCommand]);
await runProgram(program, ["serve", ...process.argv.slice(2)], processTerminal);
