import { enableCompileCache } from "node:module";
import { join } from "node:path";

// The cache stands beside the code. A process that can write here can change the program anyway, unlike in the system's
// temporary folder, the default. If the folder cannot be written, every start compiles again.
enableCompileCache(join(import.meta.dirname, "../node_modules/.cache/svc-platform-api"));
