/** The server of a run, for tests that make databases of their own. */
import { afterAll, beforeAll } from "vitest";
import { type SharedPostgres, sharedPostgres } from "./shared-postgres.ts";

/** The server of the run, for the file that calls this: the databases that it makes go when its tests are over. */
export function postgresOfFile(): Omit<SharedPostgres, "stop"> {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  }, 60_000);
  afterAll(() => server.stop());
  return {
    get port() {
      return server.port;
    },
    query: (sql, where) => server.query(sql, where),
    createDatabase: (name) => server.createDatabase(name),
  };
}
