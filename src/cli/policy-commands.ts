import type { Command } from "commander";
import { addPolicyCheckCommand } from "./policy-check-command.ts";
import { addPolicyExplainCommand } from "./policy-explain-command.ts";
import { addPolicyReplayCommand } from "./policy-replay-command.ts";
import { addPolicyTestCommand } from "./policy-test-command.ts";
import type { Terminal } from "./terminal.ts";

/** `policy …`: commands about policy directories. They need no running service. */
export function addPolicyCommands(program: Command, terminal: Terminal): void {
  const policy = program
    .command("policy")
    .description("check, test and explain policy directories, and replay decisions");
  addPolicyCheckCommand(policy, terminal);
  addPolicyTestCommand(policy, terminal);
  addPolicyExplainCommand(policy, terminal);
  addPolicyReplayCommand(policy, terminal);
}
