import type { Command } from "commander";
import { loadTracing } from "../config/load.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** `serve`: runs the service until it is told to stop. */
export function addServeCommand(program: Command, terminal: Terminal): void {
  withCommonOptions(program.command("serve"))
    .description("run the service until SIGTERM or SIGINT")
    .action(async (options: CommonOptions) => {
      const output = createOutput(options.json === true, terminal);
      const config = loadOrReport("serve", options, output);
      if (config === undefined) return;
      const traces = loadTracing();
      if ("problems" in traces) return output.fail(traces.problems);
      // Loaded here, so that no other command pays for it; and policies are checked while the rest is.
      const { beginFirstPolicy } = await import("../app/first-policy.ts");
      const { first } = await beginFirstPolicy(config);
      const { serve } = await import("./serve.ts");
      await serve({ config, policy: first, ...traces });
    });
}
