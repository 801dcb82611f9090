/** Ends what tests start. */
import { afterAll, onTestFinished } from "vitest";

interface Started {
  stop(): unknown;
}

/** Stops it after the last test of the file, or of the `describe` that calls it. To be called while the file loads. */
export async function forFile<T extends Started>(starting: T | Promise<T>): Promise<T> {
  const started = await starting;
  afterAll(async () => void (await started.stop()));
  return started;
}

/** Stops it when the test that runs has ended. */
export async function forTest<T extends Started>(starting: T | Promise<T>): Promise<T> {
  const started = await starting;
  onTestFinished(async () => void (await started.stop()));
  return started;
}
