/** The question that `policy explain` is asked: a file, or options. */
import { readFile } from "node:fs/promises";
import { type Command, Option } from "commander";
import { artifactProfiles } from "../../base/vocabulary.ts";
import type { PolicyQuery } from "../../policy/engine/decision.ts";
import { policyActions } from "../../policy/engine/schema.ts";
import { parseQuery, parseQueryText } from "../../policy/tools/query.ts";

export interface QueryOptions {
  readonly request?: string;
  readonly tenant?: string;
  readonly principal?: string;
  readonly subject?: string;
  readonly scope?: readonly string[];
  readonly action?: string;
  readonly application?: string;
  readonly environment?: string;
  readonly component?: string;
  readonly kind?: string;
  readonly id?: string;
  readonly mimeType?: string;
  readonly purpose?: string;
  readonly label?: readonly string[];
  readonly attribute?: readonly string[];
  readonly profile?: string;
  readonly digestPresent?: boolean;
  readonly size?: string;
  readonly keyReference?: string;
}

/** Adds the options that say what is asked. */
export function withQueryOptions(command: Command): Command {
  const single = ["principal", "subject", "environment", "component", "id", "mime-type", "purpose", "key-reference"];
  command
    .option("--request <file>", "the question as JSON or YAML, as in tests/*.yaml, instead of the options below")
    .option("--tenant <id>", "tenant of the caller")
    .addOption(new Option("--action <action>", "what is asked for").choices(policyActions))
    .option("--application <name>", "the workload's application")
    .option("--kind <kind>", "kind of the resource")
    .addOption(new Option("--profile <profile>", "artifact profile that is asked for").choices(artifactProfiles))
    .option("--scope <scope...>", "scopes of the caller")
    .option("--label <label...>", "labels")
    .option("--attribute <key=value...>", "attributes")
    .option("--digest-present", "the request has a content digest")
    .option("--size <bytes>", "content size");
  for (const name of single) command.option(`--${name} <text>`, name.replace("-", " "));
  return command;
}

/** The question. Rejects with a RangeError that says what is wrong with it. */
export async function readQuery(options: QueryOptions): Promise<PolicyQuery> {
  const { request } = options;
  if (request === undefined) return parseQuery(fromOptions(options));
  if (options.tenant !== undefined || options.action !== undefined) {
    throw new RangeError("--request takes the place of --tenant, --action and what describes the request");
  }
  const text = await readFile(request, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new RangeError(`--request: the file cannot be read (${error.code})`);
  });
  return parseQueryText(text);
}

function fromOptions(options: QueryOptions) {
  const { tenant, action, principal, subject, scope, size } = options;
  const { application, environment, component, kind, id, mimeType, purpose, label, attribute } = options;
  return {
    tenant,
    action,
    principal: present({ principal_id: principal, subject, scopes: scope }),
    claimed: present({
      workload: present({ application, environment, component }),
      resource: present({ kind, id, mime_type: mimeType }),
      purpose,
      labels: label,
      attributes: attribute && Object.fromEntries(attribute.map(splitAttribute)),
      artifact_profile: options.profile,
      content_digest_present: options.digestPresent,
      content_size_bytes: size === undefined ? undefined : /^\d+$/.test(size) ? Number(size) : size,
      key_reference: options.keyReference,
    }),
  };
}

function splitAttribute(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new RangeError("--attribute must be key=value");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** The members that have a value. */
function present(record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
