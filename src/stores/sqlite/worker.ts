/** Entry point of the store's threads: opens its connection, then serves one call after the other. */
import { parentPort, workerData } from "node:worker_threads";
import { anchorConnection, SqliteAnchor } from "./anchor.ts";
import type { openConnection as OpenConnection, SqliteConnection } from "./connection.ts";
import { describeFailure, isBusy } from "./errors.ts";
import { hideErased } from "./hide-erased.ts";
import { readNotedErasures } from "./noted-erasures.ts";
import type { NumberedRequest, WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";
import { SqliteReader } from "./reader.ts";
import { SqliteWriter } from "./writer.ts";

const { role, path, anchorPath, originPrefix, busyTimeoutMs, connectionModule, connectionData } =
  workerData as WorkerData;
const port = parentPort;
if (port === null) throw new Error("This file runs in a worker thread.");

const { openConnection } = (await import(connectionModule)) as {
  openConnection(options: Parameters<typeof OpenConnection>[0], data: unknown): SqliteConnection;
};

/** Opened again after a failure, so that nothing is believed that a failed connection may have wrong. */
let store: SqliteWriter | SqliteReader | undefined = openStore();

function openStore(): SqliteWriter | SqliteReader {
  const connection = openConnection({ path, readOnly: role !== "writer", busyTimeoutMs }, connectionData);
  try {
    return role !== "writer" ? openReader(connection) : openWriter(connection);
  } catch (error) {
    connection.close();
    throw error;
  }
}

function openReader(connection: SqliteConnection): SqliteReader {
  const open = (options: Parameters<typeof OpenConnection>[0]) => openConnection(options, connectionData);
  hideErased(connection, readNotedErasures(connection, anchorPath, open));
  return new SqliteReader(connection);
}

function openWriter(connection: SqliteConnection): SqliteWriter {
  const options = { ...anchorConnection, path: anchorPath, busyTimeoutMs };
  const anchor = new SqliteAnchor(openConnection(options, connectionData));
  try {
    return new SqliteWriter(connection, anchor, originPrefix);
  } catch (error) {
    anchor.close();
    throw error;
  }
}

function serve(request: WorkerRequest): unknown {
  store ??= openStore();
  if (store instanceof SqliteReader) {
    if (request.call === "find") return store.find(request.tenantId, request.recordId);
    if (request.call === "search") return store.records.search(request.query);
    if (request.call === "cosignatures") return store.cosignatures();
    if (request.call === "logs") return store.logs.logs();
    if (request.call === "log") return store.logs.log(request.name);
    if (request.call === "tile") return store.logs.tile(request.name, request.tile);
    if (request.call === "consistencyProof")
      return store.logs.consistencyProof(request.name, request.first, request.second);
    if (request.call === "probe") return store.probe();
  } else {
    if (request.call === "append") return store.append(request.batches, request.nowMs, request.signingKey);
    if (request.call === "head") return store.head(request.name, request.signingKey);
    if (request.call === "keepCosignatures") return store.keepCosignatures(request.cosignatures);
    if (request.call === "keepPolicyRevision") return store.keepPolicyRevision(request.revision, request.content);
    if (request.call === "noteProofs") return store.noteProofs(request.rows, request.nowMs);
    if (request.call === "takeAttempt") return store.takeAttempt(request.limits, request.nowMs);
    if (request.call === "giveBackAttempt") return store.giveBackAttempt(request.limits, request.nowMs);
    if (request.call === "probe") return store.probe(request.nowMs, request.signingKey);
  }
  throw new Error(`The ${role} does not serve ${request.call}.`);
}

function answer({ id, request }: NumberedRequest): WorkerMessage {
  try {
    return { type: "result", id, result: serve(request) };
  } catch (error) {
    const failure = describeFailure(error);
    if (failure.kind === "store" && !isBusy(error)) dropStore();
    return { type: "failure", id, failure };
  }
}

function dropStore(): void {
  const failed = store;
  store = undefined;
  try {
    failed?.close();
  } catch {
    // A connection that failed may fail to close; it is not used again.
  }
}

port.on("message", (message: NumberedRequest) => {
  if (message.request.call === "close") {
    dropStore();
    port.postMessage({ type: "result", id: message.id, result: undefined } satisfies WorkerMessage);
    port.close();
    return;
  }
  port.postMessage(answer(message));
});
port.postMessage({ type: "ready" } satisfies WorkerMessage);
