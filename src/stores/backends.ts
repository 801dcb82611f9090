/** All store backends. Each is loaded on first use: a driver takes memory, and time to start. */
import type { StoreBackend, StoreSettings } from "./sql/backend.ts";

/** Loads the backend that the settings name. Does not open the store. */
export async function storeBackend(settings: StoreSettings): Promise<StoreBackend> {
  const { store } = settings;
  switch (store.kind) {
    case "sqlite":
      return (await import("./sqlite/backend.ts")).sqliteBackend(store.path, settings);
    case "postgres":
      return (await import("./postgres/backend.ts")).postgresBackend(store.target, settings);
  }
}
