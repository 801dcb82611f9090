import type { Command } from "commander";
import { isClient } from "../credentials/client-file.ts";
import { type ClientOptions, changeClients, clientOrReport, readClients, unknownClient } from "./clients-file.ts";
import { addClientsAddCommand, addClientsRotateCommand } from "./clients-secret-commands.ts";
import {
  type ConfirmationOptions,
  confirmStatedStepOrReport,
  logStep,
  type StatementOptions,
  withConfirmation,
  withLoggedStatement,
} from "./confirmation.ts";
import { type CommonOptions, withCommonOptions } from "./options.ts";
import { createOutput } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** `clients …`: who may ask for a session. A service that runs follows within seconds. */
export function addClientsCommands(program: Command, terminal: Terminal): void {
  const clients = program.command("clients").description("register clients of the session route");
  addClientsAddCommand(clients, terminal);
  addClientsRotateCommand(clients, terminal);
  addListCommand(clients, terminal);
  addRemoveCommand(clients, terminal);
}

function addListCommand(clients: Command, terminal: Terminal): void {
  withCommonOptions(clients.command("list"))
    .description("list the clients and what they may have; never a secret")
    .option("--tenant <id>", "of this tenant only")
    .action(async (options: CommonOptions & { readonly tenant?: string }) => {
      const output = createOutput(options.json === true, terminal);
      const known = await readClients(options, output);
      if (known === undefined) return;
      const rows = known.filter(({ tenantId }) => options.tenant === undefined || tenantId === options.tenant);
      output.succeed(
        {
          clients: rows.map(({ tenantId, clientId, scopes, attributes }) => ({
            tenant_id: tenantId,
            client_id: clientId,
            scopes,
            attributes,
          })),
        },
        rows.length === 0
          ? "no clients"
          : rows.map(({ tenantId, clientId, scopes }) => `${tenantId}\t${clientId}\t${scopes.join(" ")}`).join("\n"),
      );
    });
}

function addRemoveCommand(clients: Command, terminal: Terminal): void {
  withConfirmation(withLoggedStatement(withCommonOptions(clients.command("remove"))))
    .description("remove a client; tokens that it has end within five minutes")
    .requiredOption("--tenant <id>", "tenant of the client")
    .requiredOption("--client <id>", "identifier of the client")
    .action(async (options: ClientOptions & ConfirmationOptions & StatementOptions) => {
      const output = createOutput(options.json === true, terminal);
      const { tenant, client } = options;
      if (!(await clientOrReport(options, output))) return;
      const step = {
        question: `Remove client ${client} of tenant ${tenant}? Its secret works no more.`,
        text: `client ${client} of tenant ${tenant} would be removed`,
        value: { would_remove: { tenant_id: tenant, client_id: client } },
      };
      const statement = await confirmStatedStepOrReport(step, options, terminal, output);
      if (statement === undefined) return;
      const done = changeClients(options, output, (known) => {
        const others = known.filter((candidate) => !isClient(candidate, tenant, client));
        if (others.length === known.length) throw unknownClient(options);
        return others;
      });
      if (!done) return;
      await logStep("clients remove", statement, { tenant_id: tenant, client_id: client }, terminal);
      output.succeed({ tenant_id: tenant, client_id: client }, `client ${client} of tenant ${tenant} removed`);
    });
}
