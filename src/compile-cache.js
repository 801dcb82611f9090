import { enableCompileCache } from "node:module";
import { join } from "node:path";

// Beside the code that it is made of: whoever can write here can change the program anyway, which is not so of the
// default, a folder of the system's temporary one. Where it cannot be written, every start compiles again.
enableCompileCache(join(import.meta.dirname, "../node_modules/.cache/svc-platform-api"));
