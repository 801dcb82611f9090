import type { Command } from "commander";
import type { Terminal } from "../terminal.ts";
import { addPolicyCheckCommand } from "./check-command.ts";
import { addPolicyExplainCommand } from "./explain-command.ts";
import { addPolicyReplayCommand } from "./replay-command.ts";
import { addPolicyTestCommand } from "./test-command.ts";

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
