import type { Command } from "commander";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** `serve`: runs the service until it is told to stop. */
export function addServeCommand(program: Command, terminal: Terminal): void {
  withCommonOptions(program.command("serve"))
    .description("run the service until SIGTERM or SIGINT")
    .action(async (options: CommonOptions) => {
      const config = loadOrReport("serve", options, createOutput(options.json === true, terminal));
      if (config === undefined) return;
      // Loaded here, so that no other command pays for it.
      const { serve } = await import("./serve.ts");
      await serve({ config });
    });
}
