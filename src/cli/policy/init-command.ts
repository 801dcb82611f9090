/** `policy init`: a small policy directory to begin with. */
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { command } from "../frame/command.ts";
import { Refusal } from "../frame/terminal.ts";
import { readSchema } from "./directory.ts";

/** A platform set with one rule, one set for all tenants, and a test of each. */
const files: Readonly<Record<string, string>> = {
  "manifest.yaml": `# Both the platform's set and the tenant's must allow a request. "*" is for tenants that are not named here.
platform: platform
tenants:
  "*": default
`,
  "platform/operations.cedar": `// What the platform allows at all. Callers are authenticated before any policy is evaluated.
@id("operations")
permit (principal, action, resource);
`,
  "platform/labels.cedar": `// A forbid that applies denies, whatever permits there are.
@id("do-not-export")
@description("Data labelled do-not-export is not made portable")
@warning("data labelled do-not-export stays in the system that holds it")
forbid (principal, action in Action::"dataOperation", resource)
when { context.claimed.labels.contains("do-not-export") };
`,
  "default/operations.cedar": `// What every tenant may do.
@id("ordinary-work")
permit (principal, action, resource);
`,
  "tests/labels.yaml": `# Expected decisions: \`policy test\` asks these questions.
- name: an ordinary record is protected
  tenant: tenant-a
  action: protect
  claimed:
    workload: { application: payroll }
    resource: { kind: customer-record }
  expect: { allow: true, reasons: [platform/operations, tenant/ordinary-work] }

- name: a record that must stay is not protected
  tenant: tenant-a
  action: protect
  claimed:
    workload: { application: payroll }
    resource: { kind: customer-record }
    labels: [do-not-export]
  expect:
    allow: false
    reasons: [platform/do-not-export]
    guidance: { warnings: [data labelled do-not-export stays in the system that holds it] }
`,
};

/** Writes into an empty or a new directory only. */
export const policyInitCommand = command({
  name: "policy init",
  says: "write a small policy directory to begin with: manifest, two sets, tests, and the schema for editors",
  arguments: { "<directory>": "new or empty directory" },
  async run(context) {
    const directory = context.args[0] as string;
    const present = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw new Refusal(`${directory}: cannot be read (${error.code})`);
    });
    if (present.length > 0) throw new Refusal(`${directory}: is not empty; nothing was written`);
    try {
      for (const [name, text] of Object.entries(files)) await write(join(directory, name), text);
      await write(join(directory, "schema.cedarschema"), await readSchema(directory, context));
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw new Refusal(`${directory}: ${error instanceof Error ? error.message : String(error)}`);
    }
    const written = [...Object.keys(files), "schema.cedarschema"];
    return {
      value: { directory, files: written },
      text: [
        ...written.map((name) => join(directory, name)),
        `next: policy check ${directory}; policy test ${directory} --watch`,
      ].join("\n"),
    };
  },
});

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text, { flag: "wx" });
}
