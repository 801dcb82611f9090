import { AsyncLocalStorage } from "node:async_hooks";

/** Runs shared work outside of the connection that started it: its errors end no connection. */
export const outsideConnections = AsyncLocalStorage.snapshot();
