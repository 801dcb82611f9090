/** `test/wire/isolation.test.ts` with all names, stores and protocols. */
import { testStores } from "../harness/stores.ts";
import { isolationSuite } from "../wire/isolation/suite.ts";

for (const store of testStores) isolationSuite(store, ["REST", "gRPC"]);
