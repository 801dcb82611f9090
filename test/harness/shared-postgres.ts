/**
 * One PostgreSQL for a whole run. The setup of the run starts it when a test first asks for it, and stops it at the end.
 * A test that stops the server, sets it up or makes roles starts its own: `postgres.ts`.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { type PostgresServer, queryOnce, startPostgres } from "./postgres.ts";

const variable = "TEST_POSTGRES_FROM";

/** What all tests may do with the server. Databases of one caller are its own, whatever it calls them. */
export interface SharedPostgres extends Pick<PostgresServer, "createDatabase" | "query" | "port"> {
  /** Removes the databases that this caller made. The server goes on. */
  stop(): Promise<void>;
}

/** Listens for tests that need the server: they are processes of their own, and inherit where to ask. */
export default async function setup({ config }: TestProject): Promise<() => Promise<void>> {
  // The server's files stand where those of the tests do.
  Object.assign(process.env, config.env);
  process.env.TEST_RUN_STARTED_MS = String(Date.now());
  let started: Promise<PostgresServer> | undefined;
  const door = createServer((_, answer) => {
    started ??= startPostgres({ settings: { max_connections: "300" } });
    started.then(
      ({ url }) => answer.end(url),
      (error: unknown) => answer.writeHead(500).end(String(error)),
    );
  }).listen(0, "127.0.0.1");
  await once(door, "listening");
  process.env[variable] = `http://127.0.0.1:${(door.address() as AddressInfo).port}/`;
  return async () => {
    door.close();
    door.closeAllConnections();
    // A start that failed was said to those who asked.
    await started?.then(
      (server) => server.stop(),
      () => undefined,
    );
  };
}

export async function sharedPostgres(): Promise<SharedPostgres> {
  const answer = await fetch(process.env[variable] as string);
  const url = await answer.text();
  if (!answer.ok) throw new Error(url);
  const prefix = `test_${randomBytes(6).toString("hex")}`;
  const names: string[] = [];
  const query: SharedPostgres["query"] = (sql, where = url) => queryOnce(where, sql);
  return {
    port: Number(new URL(url).port),
    query,
    async createDatabase(name = String(names.length)) {
      const own = `${prefix}_${name}`;
      names.push(own);
      await query(`CREATE DATABASE ${own}`);
      return new URL(own, url).href;
    },
    async stop() {
      // At once: each waits for a checkpoint, and one serves them all.
      await Promise.all(names.map((name) => query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)));
    },
  };
}
