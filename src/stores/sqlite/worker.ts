/** Entry point of the store's threads: opens the connection, then serves calls in order. */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { anchorConnection, SqliteAnchor } from "../files/anchor.ts";
import { openConnection, opened, passiveCheckpoint, readStoreId, type SqliteConnection } from "../files/connection.ts";
import { describeFailure, isBusy, type StoreFailure } from "./errors.ts";
import {
  holdFile,
  type OpenedFile,
  openedDatabase,
  openedFile,
  requireInPlace,
  StoreMovedError,
} from "./file-identity.ts";
import { hideErased, readNotedErasures } from "./noted-erasures.ts";
import type { WorkerAnswer, WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";
import { type SqliteReader, sqliteReader } from "./queries.ts";
import { SqliteWriter } from "./writer.ts";

const data = workerData as WorkerData;
const { role, path, anchorPath, originPrefix, busyTimeoutMs, setup } = data;
if (parentPort === null) throw new Error("This file runs in a worker thread.");
const own: MessagePort = parentPort;

if (setup !== undefined) ((await import(setup.module)) as { prepare(data: unknown): void }).prepare(setup.data);

/** Copies commits into the file, from a connection beside the writer's. */
class Checkpointer {
  #connection: SqliteConnection | undefined;

  /**
   * @param files of the writer. The names must stand for the same files before and after they are opened: pages of
   *   another log would ruin the file.
   */
  checkpoint(files: readonly OpenedFile[]): void {
    requireInPlace(files);
    this.#connection ??= openConnection({ path, readOnly: false, busyTimeoutMs });
    requireInPlace(files);
    passiveCheckpoint(this.#connection);
  }

  close(): void {
    this.#connection?.close();
  }
}

type Served = SqliteWriter | SqliteReader | Checkpointer;

/** Files that must still be in place after every call, or the call fails. */
let files: readonly OpenedFile[] = [];
/** Files that only a probe checks: without them commits are still found. */
let otherFiles: readonly OpenedFile[] = [];
let held: ReturnType<typeof holdFile> | undefined;
/** Opened again after a failure, since state of a failed connection may be wrong. */
let store: Served | undefined = openStore();
let isMoved = false;

function openStore(): Served {
  if (role === "checkpointer") return new Checkpointer();
  return opened(openConnection({ path, readOnly: role !== "writer", busyTimeoutMs }), (connection) => {
    requireInPlace(data.files);
    if (readStoreId(connection) !== data.storeId) throw new StoreMovedError(`${path} is another store by now`);
    files = data.files;
    if (role === "writer") return openWriter(connection);
    hideErased(connection, readNotedErasures(connection, anchorPath));
    return sqliteReader(connection);
  });
}

function openWriter(connection: SqliteConnection): SqliteWriter {
  const options = { ...anchorConnection, path: anchorPath, busyTimeoutMs };
  return opened(SqliteAnchor.open(options), (anchor) => {
    requireInPlace([data.anchorFile]);
    const writer = new SqliteWriter(connection, anchor, originPrefix);
    const [database, ...links] = data.files;
    // The anchor has been read, so its files exist.
    anchor.storeId();
    const [file, log, index] = openedDatabase(database);
    const [anchorFile, ...besideAnchor] = openedDatabase(data.anchorFile);
    held = holdFile(log);
    files = [file, held.file, anchorFile, ...links];
    otherFiles = [index, ...besideAnchor];
    return writer;
  });
}

/** The writer serves nothing from a missing file: it checks before its answer, and after a failure before its work. */
async function serve(calls: readonly WorkerRequest[]): Promise<readonly unknown[]> {
  store ??= openStore();
  if (isMoved) requireInPlace([...files, ...otherFiles]);
  const served = store;
  const works = calls.map((call) => () => dispatch(served, call));
  const results = await (served instanceof SqliteWriter && works.length > 1
    ? served.together(works)
    : Promise.all(works.map((work) => work())));
  if (role === "writer") requireInPlace(files);
  if (calls.some(({ call }) => call === "probe")) requireInPlace(role === "writer" ? otherFiles : files);
  isMoved = false;
  return results;
}

/** Calls the method that a request names. */
async function dispatch(store: Served, { call, args }: WorkerRequest): Promise<unknown> {
  const method: unknown = Reflect.get(store, call);
  if (typeof method !== "function") throw new Error(`The ${role} does not serve ${call}.`);
  return method.apply(store, args);
}

/** Answers calls in order. If one of several calls fails with nothing stored, each is served alone. */
async function answer(calls: readonly WorkerRequest[]): Promise<readonly WorkerAnswer[]> {
  try {
    const results = await serve(calls);
    return results.map((result) => ({ type: "result", result }));
  } catch (error) {
    const failure = describeFailure(movedOr(error));
    if (failure.kind === "moved") keepMoved();
    if (failure.kind === "store" && !isBusy(error)) dropStore();
    if (calls.length > 1 && isOfOne(failure)) {
      const answers: WorkerAnswer[] = [];
      for (const call of calls) answers.push(...(await answer([call])));
      return answers;
    }
    return calls.map(() => ({ type: "failure", failure }));
  }
}

/** Whether one of several calls caused the failure. Nothing was committed. */
function isOfOne({ kind }: StoreFailure): boolean {
  return kind === "data" || kind === "unsound" || kind === "damaged" || kind === "retired";
}

const shareable: ReadonlySet<string> = new Set<keyof SqliteWriter>([
  "append",
  "noteProofs",
  "takePortion",
  "giveBackPortion",
  "storeCosignatures",
  "keepPolicyRevision",
]);
/** So many appends already make a large transaction; the first need not wait for more. */
const maxTogether = 16;

/** Groups waiting calls, in order; adjacent calls that may share a transaction are together. */
function groups(waiting: readonly WorkerRequest[]): readonly (readonly WorkerRequest[])[] {
  const all: WorkerRequest[][] = [];
  let open: WorkerRequest[] = [];
  for (const one of waiting) {
    const isShareable = role === "writer" && shareable.has(one.call);
    if (!isShareable || open.length === maxTogether) open = [];
    if (open.length === 0) all.push(open);
    open.push(one);
    if (!isShareable) open = [];
  }
  return all;
}

/** A missing file explains every other failure. Its connection must stay open, or its content is lost. */
function movedOr(error: unknown): unknown {
  if (store === undefined) return error;
  try {
    requireInPlace([...files, ...otherFiles]);
    return error;
  } catch (moved) {
    return moved;
  }
}

/** If only the write-ahead log is missing, copies its content into the file through this open connection. */
function keepMoved(): void {
  const [database] = data.files;
  if (isMoved || !(store instanceof SqliteWriter)) return;
  isMoved = true;
  try {
    if (openedFile(`${path}-wal`).id !== undefined) return;
    requireInPlace([database]);
    store.checkpointAll();
  } catch {
    // Best effort: the connection stays open, and retries when it is closed.
  }
}

function dropStore(): void {
  const failed = store;
  store = undefined;
  held?.close();
  held = undefined;
  // A new connection checks the file by its name.
  files = data.files;
  try {
    failed?.close();
  } catch {
    // A failed connection may fail to close; it is not used again.
  }
}

/** Answers a call, and all that wait behind it. */
async function answerAll(first: WorkerRequest): Promise<void> {
  for (const group of groups([first, ...received()])) {
    const [head] = group;
    if (head?.call === "close") {
      dropStore();
      own.postMessage({ type: "result", result: undefined } satisfies WorkerMessage);
      own.close();
      return;
    }
    for (const each of await answer(group)) own.postMessage(each);
    shortenLog();
  }
}

/** After the answers, so that no call waits for it. */
function shortenLog(): void {
  if (!(store instanceof SqliteWriter) || isMoved) return;
  try {
    if (store.shortenLog())
      own.postMessage({ type: "long_log", files: [...files, ...otherFiles] } satisfies WorkerMessage);
  } catch {
    // The log stays longer. The next write reports what is wrong with the store.
  }
}

function received(): readonly WorkerRequest[] {
  const waiting: WorkerRequest[] = [];
  for (let next = receiveMessageOnPort(own); next !== undefined; next = receiveMessageOnPort(own))
    waiting.push(next.message as WorkerRequest);
  return waiting;
}

// A call ends before the next message arrives: see `SqliteQueries`.
own.on("message", (message: WorkerRequest) => void answerAll(message));
own.postMessage({ type: "ready" } satisfies WorkerMessage);
