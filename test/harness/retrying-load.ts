/** Callers of a deployment of several replicas, which go to another one where one does not serve; and what they were answered. */
import { sampleCalls } from "../../dev/requests.ts";

export interface Acknowledged {
  /** Which replica answered. */
  readonly replica: number;
  /** The whole answer. */
  readonly body: unknown;
}

export interface RetryingLoad {
  readonly acknowledged: readonly Acknowledged[];
  /** Answers of 503 by replica; each said when to come back, or stands in `problems`. */
  readonly refused: readonly number[];
  /** What no caller that tries again can deal with. */
  readonly problems: readonly string[];
  /** Resolves when no call is under way. */
  stop(): Promise<void>;
}

export interface RetryingLoadOptions {
  /** Base URLs of the replicas now; undefined where one is not there. */
  readonly urls: readonly (string | undefined)[];
  /** Each caller's token. */
  readonly tokens: readonly string[];
}

const route = "/v1/sdk/evidence";
/** Between calls, and between attempts: the load is to be there all the time, not to take the machine. */
const pauseMs = 20;

/** A call that one replica refuses and no other takes within this time has failed. */
const patienceMs = 10_000;

/** Records evidence all the time, each caller on all replicas in turn. `urls` may change meanwhile. */
export function startRetryingLoad({ urls, tokens }: RetryingLoadOptions): RetryingLoad {
  const acknowledged: Acknowledged[] = [];
  const refused = urls.map(() => 0);
  const problems: string[] = [];
  const body = JSON.stringify(sampleCalls().find((call) => call.route === route)?.body);
  let isOver = false;

  /** Whether it was answered in the end. */
  const attempt = async (replica: number, authorization: string, key: string): Promise<boolean> => {
    const url = urls[replica];
    if (url === undefined) return false;
    const headers = { authorization, "content-type": "application/json", "idempotency-key": key };
    const response = await fetch(url + route, { method: "POST", headers, body }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    if (response === undefined || text === undefined) return false;
    if (response.status === 200) {
      acknowledged.push({ replica, body: JSON.parse(text) });
      return true;
    }
    refused[replica] = (refused[replica] ?? 0) + 1;
    if (response.status !== 503 || response.headers.get("retry-after") === null)
      problems.push(`replica ${replica}: ${response.status} ${text.slice(0, 300)}`);
    return false;
  };
  const pause = () => new Promise((resolve) => setTimeout(resolve, pauseMs));
  const running = tokens.map(async (token, caller) => {
    for (let count = 0; !isOver; count++) {
      await pause();
      const lastMs = performance.now() + patienceMs;
      const key = `${caller}-${count}`;
      for (let replica = count % urls.length; ; replica = (replica + 1) % urls.length) {
        if (await attempt(replica, `Bearer ${token}`, key)) break;
        if (performance.now() > lastMs) {
          problems.push(`call ${key}: nobody answered it`);
          break;
        }
        await pause();
      }
    }
  });
  return {
    acknowledged,
    refused,
    problems,
    async stop() {
      isOver = true;
      await Promise.all(running);
    },
  };
}
