/**
 * `npm run demo`: starts a whole deployment, calls its eight routes, and shows a file being protected in this process.
 * Exits with 1 if anything is not as expected.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { showCalls } from "./demo-calls.ts";
import { storyClients, tellStory } from "./demo-story.ts";
import { defaultClient } from "./issuer.ts";
import { startStack } from "./stack.ts";

const dataDir = await mkdtemp(join(tmpdir(), "svc-demo-"));
const clients = [defaultClient(), ...storyClients()];
const stack = await startStack({ dataDir, issuer: { clients }, env: { SVC_LOG_LEVEL: "error" } });
let failures = 0;
try {
  failures += await showCalls(stack);
  failures += await tellStory(stack, dataDir);
} finally {
  await stack.stop();
  await rm(dataDir, { recursive: true });
}
process.exitCode = failures === 0 ? 0 : 1;
