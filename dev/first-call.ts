import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ProtectionOperation } from "../gen/platform/sdk/v1/common_pb.ts";
import { ProtectionService } from "../gen/platform/sdk/v1/protection_pb.ts";

const { BASE = "http://127.0.0.1:8080", TOKEN = "" } = process.env;
const protection = createClient(ProtectionService, createGrpcTransport({ baseUrl: BASE }));
const { decision, execution } = await protection.planProtection(
  {
    operation: ProtectionOperation.PROTECT,
    workload: { application: "payroll-export", environment: "production" },
    resource: { kind: "customer-record", id: "cust-8841" },
  },
  { headers: { authorization: `Bearer ${TOKEN}` } },
);
process.stdout.write(`allow: ${decision?.allow}, use ${execution?.localEnforcementLibrary}\n`);
