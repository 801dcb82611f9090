/** A real nginx with one of the example configurations, changed in nothing but addresses and files. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { join } from "node:path";
import { freePort } from "./loopback.ts";

export interface NginxOptions {
  /** Folder below `examples/ingress` with the configuration. */
  readonly example: string;
  /** Empty folder of the test; nginx runs in it. */
  readonly folder: string;
  /** PEM texts by their file name below `tls/`. */
  readonly tls: Readonly<Record<string, string>>;
  /** `host:port` of what stands behind it. */
  readonly upstream: string;
}

export interface Nginx {
  /** Base URL: https on 127.0.0.1. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts it, and resolves once it accepts connections. Rejects with what it printed where it does not start. */
export async function startNginx({ example, folder, tls, upstream }: NginxOptions): Promise<Nginx> {
  const port = await freePort();
  await cp(join(import.meta.dirname, "../../examples/ingress", example), folder, { recursive: true });
  await mkdir(join(folder, "tls"), { recursive: true });
  for (const [name, pem] of Object.entries(tls)) await writeFile(join(folder, "tls", name), pem);
  await writeFile(
    join(folder, "nginx.conf"),
    adapt(await readFile(join(folder, "nginx.conf"), "utf8"), port, upstream),
  );
  const child = spawn("nginx", ["-p", folder, "-c", "nginx.conf", "-g", "daemon off;"], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
  });
  let printed = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
  });
  const ended = once(child, "exit");
  await Promise.race([
    accepting(port),
    ended.then(() => {
      throw new Error(`nginx ended: ${printed}`);
    }),
  ]);
  return {
    url: `https://127.0.0.1:${port}`,
    async stop() {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

/** The configuration with the test's addresses, and folders that need no rights. */
function adapt(configuration: string, port: number, upstream: string): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path tmp-${name};`,
  );
  return replaced(
    replaced(
      replaced(configuration, /listen 443 ssl/g, `listen 127.0.0.1:${port} ssl`),
      /server 127\.0\.0\.1:\d+;/g,
      `server ${upstream};`,
    ),
    /^http \{/m,
    `http {\n${temporary.join("\n")}`,
  );
}

function replaced(text: string, pattern: RegExp, by: string): string {
  const result = text.replace(pattern, by);
  if (result === text) throw new Error(`the configuration has no ${pattern}`);
  return result;
}

/** Resolves once the port accepts a connection. */
async function accepting(port: number): Promise<void> {
  for (;;) {
    const socket = net.connect(port, "127.0.0.1");
    const open = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    });
    socket.destroy();
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
