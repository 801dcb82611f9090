/** Entry point of the store's threads: opens its connection, then serves one call after the other. */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type openConnection as OpenConnection, readStoreId, type SqliteConnection } from "./connection.ts";
import { hideErased, readNotedErasures } from "./erasure/noted-erasures.ts";
import { describeFailure, isBusy } from "./errors.ts";
import { type OpenedFile, openedDatabase, openedFile, requireInPlace, StoreMovedError } from "./file-identity.ts";
import { anchorConnection, SqliteAnchor } from "./log/anchor.ts";
import type { ConnectRequest, NumberedRequest, WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";
import { SqliteReader } from "./reader.ts";
import { SqliteWriter } from "./writer.ts";

const data = workerData as WorkerData;
const { role, path, anchorPath, originPrefix, busyTimeoutMs, connectionModule, connectionData } = data;
const port = parentPort;
if (port === null) throw new Error("This file runs in a worker thread.");

const { openConnection } = (await import(connectionModule)) as {
  openConnection(options: Parameters<typeof OpenConnection>[0], data: unknown): SqliteConnection;
};

/** Files that must still be the opened ones after every call, or the call fails. */
let files: readonly OpenedFile[] = [];
/** What is looked at with every probe besides: without these a commit is found as well. */
let otherFiles: readonly OpenedFile[] = [];
/** Opened again after a failure, so that nothing is believed that a failed connection may have wrong. */
let store: SqliteWriter | SqliteReader | undefined = openStore();
let isMoved = false;

function openStore(): SqliteWriter | SqliteReader {
  const connection = openConnection({ path, readOnly: role !== "writer", busyTimeoutMs }, connectionData);
  try {
    requireInPlace(data.files);
    if (readStoreId(connection) !== data.storeId) throw new StoreMovedError(`${path} is another store by now`);
    files = data.files;
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
    requireInPlace([data.anchorFile]);
    const writer = new SqliteWriter(connection, anchor, originPrefix);
    const [database, ...links] = data.files;
    // The anchor has been read: its files are there too.
    anchor.storeId();
    const [file, log, index] = openedDatabase(database);
    const [anchorFile, ...besideAnchor] = openedDatabase(data.anchorFile);
    files = [file, log, anchorFile, ...links];
    otherFiles = [index, ...besideAnchor];
    return writer;
  } catch (error) {
    anchor.close();
    throw error;
  }
}

/** The writer serves nothing from a file that is gone: it looks before its answer, and from then on before its work. */
function serve(request: WorkerRequest): unknown {
  store ??= openStore();
  if (isMoved) requireInPlace([...files, ...otherFiles]);
  const result = dispatch(store, request);
  if (role === "writer") requireInPlace(files);
  if (request.call === "probe") requireInPlace(role === "writer" ? otherFiles : files);
  isMoved = false;
  return result;
}

function dispatch(store: SqliteWriter | SqliteReader, request: WorkerRequest): unknown {
  if (store instanceof SqliteReader) {
    if (request.call === "find") return store.find(request.tenantId, request.recordId);
    if (request.call === "search") return store.records.search(request.query);
    if (request.call === "registrations") return store.registrations.look(request.tenantId, request.names);
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
    if (request.call === "storeCosignatures") return store.storeCosignatures(request.cosignatures);
    if (request.call === "keepPolicyRevision") return store.keepPolicyRevision(request.revision, request.content);
    if (request.call === "indexRegistrations") return store.indexRegistrations(request.tenantId, request.key);
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
    const failure = describeFailure(movedOr(error));
    if (failure.kind === "moved") keepMoved();
    if (failure.kind === "store" && !isBusy(error)) dropStore();
    return { type: "failure", id, failure };
  }
}

/** A file that is gone explains every other failure; and closed, it would be gone for good. */
function movedOr(error: unknown): unknown {
  if (store === undefined) return error;
  try {
    requireInPlace([...files, ...otherFiles]);
    return error;
  } catch (moved) {
    return moved;
  }
}

/** Where only the log of writes is gone, what it has is brought into the file, while this connection still has it. */
function keepMoved(): void {
  const [database] = data.files;
  if (isMoved || !(store instanceof SqliteWriter)) return;
  isMoved = true;
  try {
    if (openedFile(`${path}-wal`).id !== undefined) return;
    requireInPlace([database]);
    store.checkpoint();
  } catch {
    // Nothing was promised: the connection stays open, and does the same when it is closed.
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

const guests = new Set<MessagePort>();

function answerOn(to: MessagePort, message: NumberedRequest): void {
  const answered = answer(message);
  Atomics.add(data.answered, 0, 1);
  to.postMessage(answered);
}

function connect(guest: MessagePort): void {
  guests.add(guest);
  guest.on("message", (message: NumberedRequest) => answerOn(guest, message));
  guest.once("close", () => guests.delete(guest));
}

port.on("message", (message: NumberedRequest | ConnectRequest) => {
  if ("connect" in message) return connect(message.connect);
  if (message.request.call === "close") {
    dropStore();
    port.postMessage({ type: "result", id: message.id, result: undefined } satisfies WorkerMessage);
    for (const guest of guests) guest.close();
    port.close();
    return;
  }
  answerOn(port, message);
});
port.postMessage({ type: "ready" } satisfies WorkerMessage);
