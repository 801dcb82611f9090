import type { Command } from "commander";
import { addPolicyCheckCommand } from "./policy-check-command.ts";
import { addPolicyTestCommand } from "./policy-test-command.ts";
import type { Terminal } from "./terminal.ts";

/** `policy …`: commands about policy directories. They need no running service. */
export function addPolicyCommands(program: Command, terminal: Terminal): void {
  const policy = program.command("policy").description("check and test policy directories");
  addPolicyCheckCommand(policy, terminal);
  addPolicyTestCommand(policy, terminal);
}
