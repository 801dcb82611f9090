import { runCommandLine } from "./cli/run.ts";
import { processTerminal } from "./cli/terminal.ts";

await runCommandLine(["serve", ...process.argv.slice(2)], processTerminal);
