/** What ends a process ends what it has started, too. */
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Awaits work that has programs of its own running, which it ends when its argument aborts. A signal that ends this
 * process aborts it, and ends the process once the work is over.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let received: NodeJS.Signals | undefined;
  const interrupt = (signal: NodeJS.Signals) => {
    received = signal;
    controller.abort();
  };
  for (const signal of signals) process.once(signal, interrupt);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    if (received !== undefined) process.kill(process.pid, received);
  }
}
