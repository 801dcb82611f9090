/** The software bill of materials of the image (CycloneDX 1.5): npm's own for packages, and Debian's libraries. */
import { execFileSync } from "node:child_process";
import type { Library } from "./image-libraries.ts";
import type { InstalledPackage } from "./packages.ts";

interface Component {
  readonly "bom-ref": string;
  readonly type: string;
  readonly name: string;
  readonly version: string;
}

interface Bom {
  readonly metadata: { readonly component: object };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/**
 * Text of the document. npm lists everything in the lock file, also for development and other platforms; what is not in
 * the image is removed. (npm's `--omit=dev` also removes what both production and development need.) The time and the
 * random number are removed too, so that the same files give the same document.
 */
export function billOfMaterials(
  root: string,
  packages: readonly InstalledPackage[],
  libraries: readonly Library[],
): string {
  const args = ["sbom", "--package-lock-only", "--sbom-format=cyclonedx"];
  const listed = JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 26 })) as Bom;
  const installed = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const components = listed.components.filter(({ name, version }) => installed.has(`${name}@${version}`));
  if (components.length < installed.size) throw new Error("npm's list lacks packages that are in the image");
  const references = new Set(components.map((component) => component["bom-ref"]));
  const isListed = (ref: string) => references.has(ref);
  const project = `${(listed.metadata.component as Component)["bom-ref"]}`;
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: { ...listed.metadata.component, type: "container", name: "svc-platform-api" } },
    components: [...components, ...debianComponents(libraries)],
    dependencies: listed.dependencies
      .filter(({ ref }) => ref === project || isListed(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isListed) })),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** A Debian package with those of its files that are in the image. */
function debianComponents(libraries: readonly Library[]): readonly object[] {
  const packages = Map.groupBy(libraries, ({ debianPackage: { name } }) => name);
  return [...packages].map(([name, files]) => {
    const { version, architecture } = (files[0] as Library).debianPackage;
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}`;
    return {
      ...{ "bom-ref": purl, type: "library", name, version, purl },
      components: files.map(({ path, sha256 }) => ({
        ...{ type: "file", name: path },
        hashes: [{ alg: "SHA-256", content: sha256 }],
      })),
    };
  });
}
