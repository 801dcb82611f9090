import { loadTracing } from "../config/load.ts";
import { command } from "./command.ts";
import { Refusal } from "./output.ts";

/** Runs the service until it is told to stop. */
export const serveCommand = command({
  name: "serve",
  says: "run the service until SIGTERM or SIGINT",
  async run({ load }) {
    const config = load("serve");
    const traces = loadTracing();
    if ("problems" in traces) throw new Refusal(traces.problems);
    // Loaded here, so that no other command pays for it; and policies are checked while the rest is.
    const { beginFirstPolicy } = await import("../app/first-policy.ts");
    const { first } = await beginFirstPolicy(config);
    const { serve } = await import("./serve.ts");
    await serve({ config, policy: first, ...traces });
    return undefined;
  },
});
