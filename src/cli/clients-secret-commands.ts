/** The commands that make a secret. It is shown once, as the last line, and nobody can show it again. */
import type { Command } from "commander";
import type { AttributeValues } from "../base/caller-attributes.ts";
import { parseTenantId } from "../base/ids.ts";
import { isClient, parseClientAttributes } from "../credentials/client-file.ts";
import { hashSecret, newSecret } from "../credentials/client-secret.ts";
import {
  type ClientOptions,
  ClientProblem,
  changeClients,
  clientOrReport,
  newClientProblems,
  random,
  unknownClient,
} from "./clients-file.ts";
import {
  type ConfirmationOptions,
  confirmStatedStepOrReport,
  logStep,
  type StatementOptions,
  withConfirmation,
  withLoggedStatement,
} from "./confirmation.ts";
import { withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** `clients add`: registers a client. */
export function addClientsAddCommand(clients: Command, terminal: Terminal): void {
  withCommonOptions(clients.command("add"))
    .description("register a client and print its secret, once, as the last line")
    .requiredOption("--tenant <id>", "tenant of the client")
    .requiredOption("--client <id>", "identifier of the client; its principal and subject too")
    .requiredOption("--scopes <list>", "scopes that it may have, separated by spaces")
    .option("--attributes <json>", "attributes of the caller, as a JSON object, for policies that declare them")
    .action(async (options: ClientOptions & { readonly scopes: string; readonly attributes?: string }) => {
      const output = createOutput(options.json === true, terminal);
      const scopes = [...new Set(options.scopes.split(" ").filter((scope) => scope !== ""))];
      const attributes = attributesOf(options.attributes);
      const problems = [
        ...newClientProblems(options, scopes),
        ...(typeof attributes === "string" ? [`--attributes: ${attributes}`] : []),
      ];
      const tenantId = parseTenantId(options.tenant);
      if (problems.length > 0 || tenantId === undefined || typeof attributes === "string") return output.fail(problems);
      const secret = newSecret(random);
      const hash = await hashSecret(secret, random);
      const client = { tenantId, clientId: options.client, scopes, ...attributes, secret: hash };
      const done = changeClients(options, output, (known) => {
        if (known.some((other) => isClient(other, tenantId, client.clientId)))
          throw new ClientProblem(`--client: tenant ${tenantId} has it already; rotate makes it another secret`);
        return [...known, client];
      });
      if (done) printSecret(options, { scopes, ...attributes }, "added", secret, output);
    });
}

/** The member `attributes` of a client; empty where the option is absent, a text where it is not good. */
function attributesOf(text: string | undefined): { readonly attributes?: AttributeValues } | string {
  if (text === undefined) return {};
  try {
    return { attributes: parseClientAttributes(JSON.parse(text), "the object") };
  } catch (error) {
    return error instanceof SyntaxError ? "must be a JSON object" : (error as Error).message;
  }
}

/** `clients rotate`: gives a client another secret; the one before is worth nothing from then on. */
export function addClientsRotateCommand(clients: Command, terminal: Terminal): void {
  withConfirmation(withLoggedStatement(withCommonOptions(clients.command("rotate"))))
    .description("replace the secret of a client and print the new one, once, as the last line")
    .requiredOption("--tenant <id>", "tenant of the client")
    .requiredOption("--client <id>", "identifier of the client")
    .action(async (options: ClientOptions & ConfirmationOptions & StatementOptions) => {
      const output = createOutput(options.json === true, terminal);
      const { tenant, client } = options;
      if (!(await clientOrReport(options, output))) return;
      const step = {
        question: `Replace the secret of client ${client} of tenant ${tenant}? The one before works no more.`,
        text: `client ${client} of tenant ${tenant} would get another secret`,
        value: { would_rotate: { tenant_id: tenant, client_id: client } },
      };
      const statement = await confirmStatedStepOrReport(step, options, terminal, output);
      if (statement === undefined) return;
      const secret = newSecret(random);
      const hash = await hashSecret(secret, random);
      const done = changeClients(options, output, (known) => {
        if (!known.some((client) => isClient(client, options.tenant, options.client))) throw unknownClient(options);
        return known.map((client) =>
          isClient(client, options.tenant, options.client) ? { ...client, secret: hash } : client,
        );
      });
      if (!done) return;
      await logStep("clients rotate", statement, { tenant_id: tenant, client_id: client }, terminal);
      printSecret(options, {}, "has another secret", secret, output);
    });
}

function printSecret(
  { tenant, client }: ClientOptions,
  more: Readonly<Record<string, unknown>>,
  what: string,
  secret: string,
  output: Output,
): void {
  output.succeed(
    { tenant_id: tenant, client_id: client, ...more, client_secret: secret },
    `client ${client} of tenant ${tenant} ${what}; its secret, which is not shown again:\n${secret}`,
  );
}
