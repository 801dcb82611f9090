import { enableCompileCache, findPackageJSON } from "node:module";
import { dirname, join } from "node:path";

// The cache stands beside the code. A process that can write here can change the program anyway, unlike in the system's
// temporary folder, the default. If the folder cannot be written, every start compiles again.
const packageFile = findPackageJSON(import.meta.url);
if (packageFile !== undefined) enableCompileCache(join(dirname(packageFile), "node_modules/.cache/svc-platform-api"));
