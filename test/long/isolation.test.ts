/** `test/wire/isolation.test.ts` with all names, and the other pairs of store and protocol. */
import { testStores } from "../harness/stores.ts";
import { isolationSuite } from "../wire/isolation/suite.ts";

const [sqlite, postgres] = testStores;
isolationSuite(sqlite, ["gRPC"]);
isolationSuite(postgres, ["REST"]);
