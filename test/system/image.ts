/** Runs a program of the image's file system as a container runtime would: read-only, as nobody, with one folder to write. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type ServiceProcess, watch } from "../harness/process.ts";
import { requireTool } from "./tools.ts";

export interface Container extends ServiceProcess {
  /** Signals the program itself, which is process 1 of its namespace. */
  signal(name: NodeJS.Signals): Promise<void>;
}

/** User and group of the image: nobody. */
const nobody = 65_534;

/**
 * Starts it in namespaces of its own but for the network, without capabilities, and without any environment but this.
 * @param image folder of the file system
 * @param data folder, owned by nobody: `/data` there
 * @param policies folder: `/run` there
 */
export function runInImage(
  { image, data, policies }: { readonly image: string; readonly data: string; readonly policies: string },
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Container {
  const asNobody = [`--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups", "--no-new-privs"];
  const mounts = ["--ro-bind", image, "/", "--bind", data, "/data", "--ro-bind", policies, "/run"];
  const system = ["--proc", "/proc", "--dev", "/dev"];
  const apart = ["--unshare-all", "--share-net", "--cap-drop", "ALL", "--die-with-parent", "--as-pid-1"];
  const environment = ["--clearenv", ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value])];
  const options = [...mounts, ...system, ...apart, ...environment, "--chdir", "/app", "--info-fd", "3"];
  const child = spawn("setpriv", [...asNobody, requireTool("bwrap"), ...options, ...command], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const info = text(child.stdio[3] as Readable);
  return {
    ...watch(child as Parameters<typeof watch>[0]),
    async signal(name) {
      process.kill((JSON.parse(await info) as { "child-pid": number })["child-pid"], name);
    },
  };
}

/** What the last stage of the Containerfile says: its instructions, by name. */
export function lastStage(containerfile: string): ReadonlyMap<string, string> {
  const stage = containerfile.slice(containerfile.lastIndexOf("\nFROM ") + 1);
  const instructions = stage.matchAll(/^([A-Z]+) (.+)$/gm);
  return new Map([...instructions].map(([, name = "", value = ""]) => [name, value]));
}

export const containerfilePath = join(import.meta.dirname, "../../deploy/Containerfile");
