/**
 * `clients …`: which clients may request a session. `operators …`: who may read every log on the operator listener. A
 * running service reloads both within seconds.
 */

import type { AttributeValues } from "../base/caller.ts";
import { parseTenantId, systemRandom } from "../base/ids.ts";
import { hasRepeatedMember, parseJson } from "../base/json.ts";
import { hashSecret, newSecret } from "../credentials/client-secret.ts";
import {
  formatOpsCredentials,
  hashOpsToken,
  isOperatorName,
  type OpsCredential,
  parseOpsCredentials,
} from "../credentials/ops-credentials.ts";
import {
  formatClientFile,
  isClient,
  isClientId,
  isScope,
  parseClientAttributes,
  parseClientFile,
  type RegisteredClient,
} from "../credentials/session-clients.ts";
import { readIfThere, updateFile } from "../files/file-system.ts";
import { type Context, command, loggedStepFlags } from "./frame/command.ts";
import { type Answer, Refusal, underSetting } from "./frame/terminal.ts";

/** A file of credentials that a setting names. */
interface CredentialFile<One> {
  readonly setting: string;
  readonly path: (context: Pick<Context, "load">) => string;
  readonly parse: (text: string) => readonly One[];
  readonly format: (all: readonly One[]) => string;
}

const clients: CredentialFile<RegisteredClient> = {
  setting: "SVC_SESSION_CLIENTS",
  path: ({ load }) => load("clients").sessionClients,
  parse: parseClientFile,
  format: formatClientFile,
};
/** The same file, to remove what the service refuses it for. */
const removable: CredentialFile<RegisteredClient> = { ...clients, parse: (text) => parseClientFile(text, {}, true) };
const operators: CredentialFile<OpsCredential> = {
  setting: "SVC_OPS_CREDENTIALS",
  path: ({ load }) => load("ops_credentials").opsCredentials,
  parse: parseOpsCredentials,
  format: formatOpsCredentials,
};

/** The credentials of the file; none if there is no file. */
function read<One>({ setting, path, parse }: CredentialFile<One>, context: Pick<Context, "load">): readonly One[] {
  const file = path(context);
  return underSetting(setting, () => {
    const text = readIfThere(file);
    return text === undefined ? [] : parse(text);
  });
}

/** Replaces the credentials of the file in one step. If `next` throws, nothing is written. */
function change<One>(
  { setting, path, parse, format }: CredentialFile<One>,
  context: Pick<Context, "load">,
  next: (known: readonly One[]) => readonly One[],
): void {
  const file = path(context);
  const changed = (text: string | undefined) => {
    const after = format(next(text === undefined ? [] : parse(text)));
    parse(after); // Else the service would refuse the file.
    return after;
  };
  underSetting(setting, () => updateFile(file, changed));
}

/** The client in a command's options. */
interface Named {
  readonly tenant: string;
  readonly client: string;
}

const clientFlags = {
  "--tenant <id>": { says: "tenant of the client", required: true },
  "--client <id>": { says: "identifier of the client", required: true },
} as const;

/** Registers a client. */
export const clientsAddCommand = command({
  name: "clients add",
  says: "register a client and print its secret, once, as the last line",
  options: {
    "--tenant <id>": clientFlags["--tenant <id>"],
    "--client <id>": { says: "identifier of the client; its principal and subject too", required: true },
    "--scopes <list>": { says: "scopes that it may have, separated by spaces", required: true },
    "--attributes <json>": "attributes of the caller, as a JSON object, for policies that declare them",
  },
  async run(context) {
    const { tenant, client: clientId, ...options } = context.options;
    const scopes = [...new Set(options.scopes.split(" ").filter((scope) => scope !== ""))];
    const attributes = attributesOf(options.attributes);
    const tenantId = parseTenantId(tenant);
    if (tenantId === undefined || typeof attributes === "string" || !isClientId(clientId) || !areScopes(scopes))
      throw new Refusal([
        ...(tenantId === undefined
          ? ["--tenant: must be 1 to 128 of letters, digits and . _ : -, starting with a letter or digit"]
          : []),
        ...(isClientId(clientId) ? [] : ["--client: must be 1 to 256 visible ASCII characters"]),
        ...(areScopes(scopes) ? [] : ["--scopes: must be scopes, separated by spaces"]),
        ...(typeof attributes === "string" ? [`--attributes: ${attributes}`] : []),
      ]);
    const secret = newSecret(systemRandom);
    const client = { tenantId, clientId, scopes, ...attributes, secret: await hashSecret(secret, systemRandom) };
    change(clients, context, (known) => {
      if (known.some((other) => isClient(other, tenantId, clientId)))
        throw new Refusal(`--client: tenant ${tenantId} has it already; rotate makes it another secret`);
      return [...known, client];
    });
    return secretAnswer({ tenant, client: clientId }, { scopes, ...attributes }, "added", secret);
  },
});

function areScopes(scopes: readonly string[]): boolean {
  return scopes.length > 0 && scopes.every(isScope);
}

/**
 * The member `attributes` of a client; empty if the option is absent, a text that describes the problem if it is
 * invalid.
 */
function attributesOf(text: string | undefined): { readonly attributes?: AttributeValues } | string {
  if (text === undefined) return {};
  try {
    const value = parseJson(text);
    if (hasRepeatedMember(text, value)) return "must name each member once";
    return { attributes: parseClientAttributes(value, "the value") };
  } catch (error) {
    return error instanceof SyntaxError ? "must be a JSON object" : (error as Error).message;
  }
}

/** Gives a client a new secret; the old one is invalid from then on. */
export const clientsRotateCommand = command({
  name: "clients rotate",
  says: "replace the secret of a client and print the new one, once, as the last line",
  options: { ...loggedStepFlags, ...clientFlags },
  run(context) {
    const { tenant, client } = context.options;
    requireClient(read(clients, context), context.options);
    const members = { tenant_id: tenant, client_id: client };
    return {
      question: `Replace the secret of client ${client} of tenant ${tenant}? The old one will be invalid.`,
      preview: {
        text: `client ${client} of tenant ${tenant} would get another secret`,
        value: { would_rotate: members },
      },
      async take() {
        const secret = newSecret(systemRandom);
        const hash = await hashSecret(secret, systemRandom);
        change(clients, context, (known) => {
          requireClient(known, context.options);
          return known.map((one) => (isClient(one, tenant, client) ? { ...one, secret: hash } : one));
        });
        return { ...secretAnswer(context.options, {}, "has another secret", secret), logged: members };
      },
    };
  },
});

/** The secret is shown only once, as the last line. */
function secretAnswer({ tenant, client }: Named, more: object, what: string, secret: string): Answer {
  return {
    value: { tenant_id: tenant, client_id: client, ...more, client_secret: secret },
    text: `client ${client} of tenant ${tenant} ${what}; its secret, which is not shown again:\n${secret}`,
  };
}

export const clientsListCommand = command({
  name: "clients list",
  says: "list the clients and what they may have; never a secret",
  options: { "--tenant <id>": "of this tenant only" },
  run(context) {
    const { tenant } = context.options;
    const rows = read(clients, context).filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
    const listed = rows.map(({ tenantId, clientId, scopes, attributes }) => ({
      tenant_id: tenantId,
      client_id: clientId,
      scopes,
      attributes,
    }));
    const lines = rows.map(({ tenantId, clientId, scopes }) => `${tenantId}\t${clientId}\t${scopes.join(" ")}`);
    return { value: { clients: listed }, text: lines.join("\n") || "no clients" };
  },
});

export const clientsRemoveCommand = command({
  name: "clients remove",
  says: "remove a client; tokens that it has end within five minutes",
  options: { ...loggedStepFlags, ...clientFlags },
  run(context) {
    const { tenant, client } = context.options;
    requireClient(read(removable, context), context.options);
    const members = { tenant_id: tenant, client_id: client };
    return {
      question: `Remove client ${client} of tenant ${tenant}? Its secret will be invalid.`,
      preview: { text: `client ${client} of tenant ${tenant} would be removed`, value: { would_remove: members } },
      take() {
        change(removable, context, (known) => {
          requireClient(known, context.options);
          return known.filter((one) => !isClient(one, tenant, client));
        });
        return { value: members, text: `client ${client} of tenant ${tenant} removed`, logged: members };
      },
    };
  },
});

function requireClient(known: readonly RegisteredClient[], { tenant, client }: Named): void {
  if (known.some((one) => isClient(one, tenant, client))) return;
  throw new Refusal(`--client: tenant ${tenant} has no such client`);
}

const nameFlag = { "--name <name>": { says: "whose it is", required: true } } as const;

export const operatorsAddCommand = command({
  name: "operators add",
  says: "make an operator's credential and print its token, once, as the last line",
  options: nameFlag,
  run(context) {
    const { name } = context.options;
    if (!isOperatorName(name))
      throw new Refusal("--name: must be 1 to 64 letters, digits, dots, hyphens or underscores");
    const token = newSecret(systemRandom);
    change(operators, context, (known) => {
      if (known.some((credential) => credential.name === name))
        throw new Refusal(`--name: ${name} exists already: remove it first`);
      return [...known, { name, hash: hashOpsToken(token) }];
    });
    return { value: { name, token }, text: `credential of ${name}; its token, which is not shown again:\n${token}` };
  },
});

export const operatorsListCommand = command({
  name: "operators list",
  says: "list the operators that have credentials; never a token",
  run(context) {
    const names = read(operators, context).map(({ name }) => name);
    return { value: { names }, text: names.join("\n") || "no credentials" };
  },
});

export const operatorsRemoveCommand = command({
  name: "operators remove",
  says: "remove a credential",
  options: { ...loggedStepFlags, ...nameFlag },
  run(context) {
    const { name } = context.options;
    const isMissing = new Refusal(`--name: no operator has the name ${name}`);
    if (!read(operators, context).some((credential) => credential.name === name)) throw isMissing;
    return {
      question: `Remove the credential of ${name}? The token will be invalid.`,
      preview: { text: `the credential of ${name} would be removed`, value: { would_remove: name } },
      take() {
        change(operators, context, (known) => {
          const others = known.filter((credential) => credential.name !== name);
          if (others.length === known.length) throw isMissing;
          return others;
        });
        return { value: { name }, text: `credential of ${name} removed`, logged: { name } };
      },
    };
  },
});
