import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** Programs beyond Node that this lane uses, and how a Debian machine gets them. */
const sources = {
  curl: "apt-get install curl",
  openssl: "apt-get install openssl",
  nginx: "apt-get install nginx-light",
  chromium: "apt-get install chromium",
  promtool: "apt-get install prometheus",
  prometheus: "apt-get install prometheus",
  buf: "npm ci",
  bwrap: "apt-get install bubblewrap",
  "systemd-analyze": "apt-get install systemd",
  helm: "go install helm.sh/helm/v4/cmd/helm@v4.3.1",
  kubeconform: "go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
} as const;

/** Folders of administrators' programs and of what Go installs, which a user's PATH may lack. */
const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", join(homedir(), "go/bin")];

/** Returns the path of the program. Throws where it is missing, and says how to get it: this lane never skips. */
export function requireTool(name: keyof typeof sources): string {
  const found = folders.map((folder) => join(folder, name)).find(isExecutable);
  if (found === undefined) throw new Error(`These tests need ${name}, which is not on the PATH: ${sources[name]}`);
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
