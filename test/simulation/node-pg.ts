/** Takes the place of `pg`: the driver's own pool, over connections to a simulated server, which fail. */
import { EventEmitter } from "node:events";
import { DatabaseError, type QueryConfig, Pool as RealPool, types } from "pg";
import type { Message, Result, Server, Session } from "./database-server.ts";
import { machine, type Process } from "./machine.ts";

export { DatabaseError, types };

const lost = () => new Error("Connection terminated unexpectedly");

let server: Server | undefined;

/** The server that connections go to from now on. */
export function installServer(installed: Server): void {
  server = installed;
}

type Callback = (error?: unknown) => void;

/** What the product and the driver's pool use of a client. */
export class Client extends EventEmitter {
  readonly #process: Process | undefined;
  readonly #server = server as Server;
  #session: Session | undefined;
  readonly #unanswered = new Set<Message>();
  #sent: Message[] = [];
  #answers: (() => void)[] = [];
  #lastInMs = 0;
  #lastOutMs = 0;
  // The pool looks at these.
  _queryable = true;
  _ending = false;
  processID: number | undefined;
  readonly connection = { stream: { destroy: () => this.#destroy() } };
  readonly #connecting = Promise.withResolvers<void>();

  constructor({ database }: { readonly database?: string }) {
    super();
    this.#process = machine().processes.get(String(database));
    this.#process?.onDeath(() => this.#die());
  }

  connect(callback?: Callback): Promise<void> {
    const { promise, resolve, reject } = this.#connecting;
    const connected = this.#later("database connects", () => {
      if (this.#server.isDown || this._ending)
        throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      this.#session = this.#server.begin({
        answer: (message, answer, notice) => this.#answer(message, answer, notice),
        end: () => this.#cut(),
        mayFail: () => this.#process?.hasFaults === true,
      });
      this.processID = this.#session.processId;
    });
    connected.then(resolve, reject);
    if (callback !== undefined) promise.then(() => callback(), callback);
    return promise;
  }

  query(asked: string | QueryConfig, given: readonly unknown[] = []): Promise<Result> {
    const { text, values = given } = typeof asked === "string" ? { text: asked } : asked;
    if (this.#process?.isAlive === false) return new Promise(() => {});
    return new Promise((resolve, reject) => {
      if (!this._queryable || this.#session === undefined)
        return reject(new Error("Client was closed and is not queryable"));
      const message = { text, values, resolve, reject };
      this.#unanswered.add(message);
      this.#sent.push(message);
      if (this.#sent.length === 1) void this.#later("database receives", () => this.#receive());
    });
  }

  getTransactionStatus(): string {
    return this.#session?.status ?? "I";
  }

  end(callback?: Callback): Promise<void> {
    this._ending = true;
    this._queryable = false;
    const ended = this.#later("database disconnects", () => {
      if (this.#session !== undefined) this.#server.hangUp(this.#session, false);
      this.emit("end");
    });
    if (callback !== undefined) ended.then(() => callback(), callback);
    return ended;
  }

  /** Does something when it has reached the server. An operator's commands have no latency. */
  async #later<Value>(name: string, work: () => Value): Promise<Value> {
    const process = this.#process;
    if (process === undefined) return work();
    const { random } = machine();
    const typicalMs = process.hasFaults && random.chance(machine().databaseFaults) ? 2_000 : 0.5;
    this.#lastInMs = Math.max(this.#lastInMs, machine().nowMs + machine().latencyMs(typicalMs));
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    machine().after(this.#lastInMs - machine().nowMs, name, () => {
      if (!process.isAlive) return;
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    });
    return promise;
  }

  #receive(): void {
    const session = this.#session as Session;
    const sent = this.#sent;
    this.#sent = [];
    if (!session.isOpen) return;
    session.inbox.push(...sent);
    const { random, databaseFaults } = machine();
    const isEnd = sent.some(({ text }) => text === "COMMIT");
    if (this.#process?.hasFaults === true && random.chance(databaseFaults * (isEnd ? 5 : 1))) this.#fault(session);
    else this.#server.run(session);
  }

  #fault(session: Session): void {
    const { random } = machine();
    const kind = random.below(8);
    if (kind === 0) {
      this.#server.restart(random.chance(0.7));
      return;
    }
    if (kind < 4) {
      // The answer is lost.
      this.#cut();
      this.#server.hangUp(session, true);
      return;
    }
    // The connection is lost: at once for the client, later for the server, which may still do what it has.
    const isDone = random.chance(0.5);
    machine().after(random.below(3_000), "database hangs up", () => this.#server.hangUp(session, isDone));
    this.#cut();
  }

  #answer(message: Message, answer: Result | DatabaseError, notice = false): void {
    const deliver = () => {
      if (!this.#unanswered.delete(message)) return;
      if (notice) this.emit("notice", { code: "01000" });
      if (answer instanceof DatabaseError) message.reject(answer);
      else message.resolve(answer);
    };
    if (this.#process === undefined) {
      deliver();
      return;
    }
    this.#answers.push(deliver);
    if (this.#answers.length > 1) return;
    this.#lastOutMs = Math.max(this.#lastOutMs, machine().nowMs + machine().latencyMs(0.5));
    machine().after(this.#lastOutMs - machine().nowMs, "database answers", () => {
      const answers = this.#answers;
      this.#answers = [];
      if (this.#process?.isAlive === true) for (const each of answers) each();
    });
  }

  /** The connection is gone, for the client. */
  #cut(): void {
    if (!this._queryable && this.#unanswered.size === 0) return;
    this._queryable = false;
    const error = lost();
    if (this.#session === undefined) {
      this.#connecting.reject(error);
      return;
    }
    const unanswered = [...this.#unanswered];
    this.#unanswered.clear();
    this.#answers = [];
    machine().after(0, "connection ends", () => {
      if (this.#process?.isAlive === false) return;
      for (const { reject } of unanswered) reject(error);
      if (!this._ending) this.emit("error", error);
      this.emit("end");
    });
  }

  #destroy(): void {
    this.#cut();
    this.#hangUp(false);
  }

  #die(): void {
    this.#hangUp(machine().random.chance(0.5));
  }

  /** The server notices later that the client is gone. */
  #hangUp(isDone: boolean): void {
    const session = this.#session;
    if (session === undefined) return;
    machine().after(machine().latencyMs(5), "database hangs up", () => this.#server.hangUp(session, isDone));
  }
}

/** The driver's pool, over these clients. */
export class Pool extends RealPool {
  constructor(options: ConstructorParameters<typeof RealPool>[0]) {
    super({ ...options, Client } as unknown as ConstructorParameters<typeof RealPool>[0]);
  }
}
