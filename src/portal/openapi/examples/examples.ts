/** Examples by route. The first of a route is the one that the explorer offers first. */
import type { SdkRoute } from "../../../base/vocabulary.ts";
import { bootstrap, capabilities, whoami } from "./discovery.ts";
import { keyAccessPlan, policyResolve, protectionPlan } from "./protection.ts";
import { artifactRegister, evidence } from "./records.ts";
import type { RouteExamples } from "./world.ts";

export const routeExamples: Readonly<Record<SdkRoute, RouteExamples>> = {
  capabilities,
  whoami,
  bootstrap,
  "protection-plan": protectionPlan,
  "policy-resolve": policyResolve,
  "key-access-plan": keyAccessPlan,
  "artifact-register": artifactRegister,
  evidence,
};
