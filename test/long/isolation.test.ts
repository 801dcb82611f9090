/** The pairs of store and protocol that `test/wire/isolation.test.ts` leaves out. */
import { testStores } from "../harness/stores.ts";
import { isolationSuite } from "../wire/isolation/suite.ts";

const [sqlite, postgres] = testStores;
isolationSuite(sqlite, ["gRPC"]);
isolationSuite(postgres, ["REST"]);
