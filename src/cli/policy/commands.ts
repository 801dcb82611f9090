import type { Command } from "commander";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { addPolicyDiffCommand } from "./diff-command.ts";
import { compileOrReport, readSchemaOrReport } from "./directory.ts";
import { addPolicyExplainCommand } from "./explain-command.ts";
import { addPolicyReplayCommand } from "./replay-command.ts";
import { addPolicyTestCommand } from "./test-command.ts";

/** `policy …`: commands about policy directories. They need no running service. */
export function addPolicyCommands(program: Command, terminal: Terminal): void {
  const policy = program
    .command("policy")
    .description("check, test, explain and compare policy directories, and replay decisions");
  addPolicyCheckCommand(policy, terminal);
  addPolicySchemaCommand(policy, terminal);
  addPolicyTestCommand(policy, terminal);
  addPolicyExplainCommand(policy, terminal);
  addPolicyDiffCommand(policy, terminal);
  addPolicyReplayCommand(policy, terminal);
}

/** `policy check`: whether a policy directory would be served. */
export function addPolicyCheckCommand(policy: Command, terminal: Terminal): void {
  withCommonOptions(policy.command("check"))
    .argument("[directory]", "policy directory (default: SVC_POLICY_DIR)")
    .option("--strict", "fail too where a policy applies to no request whatever")
    .description("validate a policy directory: syntax, types, manifest and annotations")
    .action(async (argument: string | undefined, options: CommonOptions & { readonly strict?: boolean }) => {
      const output = createOutput(options.json === true, terminal);
      const compiled = await compileOrReport(argument, options, output);
      if (compiled === undefined) return;
      const { directory, bundle, engine, ignored } = compiled;
      // Loaded here, so that no other command pays for it.
      const { policiesThatNeverApply } = await import("../../policy/diff/never-applies.ts");
      const never = policiesThatNeverApply(bundle).map(({ id, file, line }) => ({ id, file, line }));
      const neverLines = never.map(({ id, file, line }) => `${file}:${line}: ${id} applies to no request`);
      const uncounted = engine.policies
        .filter((policy) => !policy.countsOnBehalfOf && policy.reads.some((name) => name.startsWith("on_behalf_of.")))
        .map(({ id, file, line }) => ({ id, file, line }));
      const uncountedLines = uncounted.map(
        ({ id, file, line }) =>
          `${file}:${line}: ${id} reads context.on_behalf_of, but can permit whatever it says: it counts for callers alone`,
      );
      const value = {
        directory,
        policy_revision: engine.revision,
        policies: engine.policies.length,
        ignored,
        never_apply: never,
        never_on_behalf_of: uncounted,
      };
      const lines = [
        `${directory}: ${engine.policies.length} policies, revision ${engine.revision}`,
        ...(ignored.length === 0 ? [] : [`not read: ${ignored.join(", ")}`]),
        ...uncountedLines,
      ];
      engine.release();
      if (options.strict === true && never.length > 0) output.fail(neverLines, value, lines.join("\n"));
      else output.succeed(value, [...lines, ...neverLines].join("\n"));
    });
}

/** `policy schema`: what the policies of a directory may read, for an editor's copy beside them. */
function addPolicySchemaCommand(policy: Command, terminal: Terminal): void {
  withCommonOptions(policy.command("schema"))
    .argument("[directory]", "policy directory (default: SVC_POLICY_DIR)")
    .description("write the Cedar schema of a policy directory, with what its manifest declares")
    .action(async (argument: string | undefined, options: CommonOptions) => {
      const output = createOutput(options.json === true, terminal);
      const schema = await readSchemaOrReport(argument, options, output);
      if (schema !== undefined) output.succeed({ schema }, schema.trimEnd());
    });
}
