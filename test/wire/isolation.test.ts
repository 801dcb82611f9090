/**
 * A caller of one tenant sees, cites, repeats or collides with nothing of another's: for every RPC and every stored
 * thing, on every store, over REST and gRPC. Here each store and protocol once; `test/long/isolation.test.ts` has the other
 * pairs. A new RPC fails here until it has a row.
 */
import { expect, test } from "vitest";
import { testStores } from "../harness/stores.ts";
import { declaredRpcs, rpcChecks } from "./isolation/rpcs.ts";
import { isolationSuite } from "./isolation/suite.ts";

test("every RPC has a row", () => {
  expect(Object.keys(rpcChecks).sort()).toEqual(declaredRpcs().toSorted());
});

const [sqlite, postgres] = testStores;
isolationSuite(sqlite, ["REST"]);
isolationSuite(postgres, ["gRPC"]);
