/** A service whose calls are served by two threads: to everybody outside it is one. */
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { wireClients } from "../harness/clients.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { methodOn, requestFromRest, wireMethods } from "../harness/methods.ts";
import { serviceSettings, startService } from "../harness/process.ts";
import { mintProof } from "../harness/proofs.ts";
import { type SessionDeployment, sessionByRest, startSessionDeployment } from "../harness/sessions.ts";
import { type TestStore, testStores } from "../harness/stores.ts";
import { newTestKey } from "../harness/tokens.ts";

const env = { SVC_WORKERS: "2" };
const evidence = "/v1/sdk/evidence";
const bodyOf = (path: string) => sampleCalls().find(({ route }) => route === path)?.body;
/** Has the call made on a connection of its own, which the system gives to either worker. */
const ownConnection = { connection: "close" };

/** The metric's values by their labels. */
async function metric({ opsUrl }: Gateway, name: string): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return new Map(
    lines.map((line) => [line.slice(name.length, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}

const total = (values: ReadonlyMap<string, number>) => [...values.values()].reduce((sum, value) => sum + value, 0);

describe.each(testStores)("on %s", (_name, startStore) => {
  let store: TestStore;
  let gateway: Gateway;
  let token: string;
  beforeAll(async () => {
    store = await startStore();
    gateway = await startGateway({ dataDir: store.folder, env: { ...store.settings, ...env } });
    token = await gateway.token();
  });
  afterAll(async () => {
    await gateway?.stop();
    await store?.stop();
  });

  test("every method answers on every protocol, both workers do, and metrics count them once", async () => {
    const before = total(await metric(gateway, "svc_calls_total"));
    const known = gateway.logged.length;
    let calls = 0;
    for (let round = 0; round < 4; round++) {
      const clients = wireClients(gateway.url);
      for (const client of clients) {
        for (const method of wireMethods) {
          const request = requestFromRest(method, bodyOf(method.restPath));
          const outcome = await client.call(method, request, { authorization: `Bearer ${token}` });
          expect(outcome, `${client.name} ${method.restPath}`).toHaveProperty("answer");
          calls += 1;
        }
        client.close();
      }
    }
    // The line of a call is written after its answer.
    const lines = () => gateway.logged.slice(known).filter((line) => line.includes('"rpc":'));
    await expect.poll(() => lines().length).toBe(calls);
    expect(total(await metric(gateway, "svc_calls_total")) - before).toBe(calls);
    expect(new Set(lines().map((line) => JSON.parse(line).worker))).toEqual(new Set([1, 2]));
    expect((await rest(`${gateway.opsUrl}/readyz`, {})).body).toMatchObject({
      status: "ready",
      checks: expect.arrayContaining([
        { name: "store", status: "ok" },
        { name: "issuer_keys", status: "ok" },
        { name: "workers", status: "ok" },
      ]),
    });
  });

  test("a call that is sent again, to whichever worker, is one record", async () => {
    const headers = { ...ownConnection, "idempotency-key": "the-same-call" };
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => rest(gateway.url + evidence, { token, body: bodyOf(evidence), headers })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(16).fill(200));
    expect(new Set(answers.map(({ body }) => body.ingestion.receipt.leaf_index)).size).toBe(1);
    const other = await rest(gateway.url + evidence, {
      token,
      body: { ...(bodyOf(evidence) as object), outcome: "another" },
      headers,
    });
    expect(other.body.error).toMatchObject({ reason: "idempotency_conflict" });
  });
});

describe("what all workers have in common", () => {
  test("a DPoP proof counts once, whoever looks at it", async () => {
    const key = newTestKey("ES256", "caller");
    const client = {
      ...{ clientId: "payroll-service", clientSecret: "a secret of the test", tenantId: "tenant-a" },
      ...{ principalId: "payroll-service", scopes: ["platform-api.access"], dpopBound: true },
    };
    const gateway = await startGateway({
      issuer: { clients: [client] },
      env: { ...env, SVC_PROOF_OF_POSSESSION: "dpop" },
    });
    try {
      const issued = await fetch(gateway.issuer.tokenEndpoint, {
        method: "POST",
        headers: {
          authorization: `Basic ${btoa(`${client.clientId}:${client.clientSecret}`)}`,
          dpop: mintProof(
            key,
            { method: "POST", url: gateway.issuer.tokenEndpoint, accessToken: "", nowMs: Date.now() },
            { ath: undefined },
          ),
        },
        body: new URLSearchParams({ grant_type: "client_credentials", scope: "platform-api.access" }),
      });
      const { access_token: accessToken } = (await issued.json()) as { access_token: string };
      const url = `${gateway.url}/v1/sdk/whoami`;
      for (let round = 0; round < 4; round++) {
        const proof = mintProof(key, { method: "GET", url, accessToken, nowMs: Date.now() });
        const headers = { ...ownConnection, authorization: `DPoP ${accessToken}`, dpop: proof };
        const answers = await Promise.all(Array.from({ length: 8 }, () => rest(url, { headers })));
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
        for (const { status, body } of answers)
          if (status !== 200) expect(body.error.message).toBe("the DPoP proof was used before");
      }
    } finally {
      await gateway.stop();
    }
  });

  test("so many wrong secrets may be tried from one address, with whichever worker", async () => {
    const client = { tenantId: "tenant-a", clientId: "payroll-service", secret: "s".repeat(43), scopes: ["a"] };
    const deployment: SessionDeployment = await startSessionDeployment([client], env);
    try {
      const ask = { tenantId: client.tenantId, clientId: client.clientId, clientSecret: "wrong" };
      const outcomes = [];
      for (let round = 0; round < 5; round++)
        outcomes.push(
          ...(await Promise.all(
            Array.from({ length: 8 }, () => sessionByRest(deployment.gateway.url, ask, ownConnection)),
          )),
        );
      const reasons = outcomes.map((outcome) => ("reason" in outcome ? outcome.reason : "let in"));
      expect(reasons.filter((reason) => reason === "invalid_client")).toHaveLength(20);
      expect(reasons.filter((reason) => reason === "rate_limited")).toHaveLength(20);
    } finally {
      await deployment.stop();
    }
  });

  test("a policy set is in force in all of them when it is said to be", async () => {
    const directory = await mkdtemp(join(tmpdir(), "svc-workers-"));
    await cp(join(import.meta.dirname, "../../policies"), directory, { recursive: true });
    const gateway = await startGateway({ env: { ...env, SVC_POLICY_DIR: directory, SVC_POLICY_POLL_MS: "3600000" } });
    try {
      const token = await gateway.token();
      const revisions = async () => {
        const path = "/v1/sdk/protection-plan";
        const calls = Array.from({ length: 12 }, () =>
          rest(gateway.url + path, { token, body: bodyOf(path), headers: ownConnection }),
        );
        return new Set((await Promise.all(calls)).map(({ body }) => body.decision.policy_revision));
      };
      const [first, ...none] = await revisions();
      expect(none).toEqual([]);
      for (let round = 0; round < 3; round++) {
        const text = `@id("more-${round}") @handling_mode("local_hardware_enforcement")\npermit (principal, action, resource);\n`;
        await writeFile(join(directory, "default/more.cedar"), text);
        await gateway.app.reload();
        const [next, ...others] = await revisions();
        expect(others).toEqual([]);
        expect(next).not.toBe(first);
      }
      await writeFile(join(directory, "default/more.cedar"), "permit (principal, action, nothing);");
      await gateway.app.reload();
      expect(await revisions()).toHaveLength(1);
      const { body } = await rest(`${gateway.url}/v1/sdk/bootstrap`, { token });
      expect(JSON.stringify(body.platform_domains)).toContain("a newer policy set was refused");
      expect((await metric(gateway, "svc_policy_loads_total")).get('{role="active",result="refused"}')).toBe(1);
    } finally {
      await gateway.stop();
      await rm(directory, { recursive: true });
    }
  });
});

test("no more connections are open than the service may have, whoever accepted them", async () => {
  const gateway = await startGateway({ env: { ...env, SVC_MAX_CONNECTIONS: "16" } });
  const { hostname, port } = new URL(gateway.url);
  const open = new Set<Socket>();
  let over = 0;
  try {
    const sockets = Array.from({ length: 48 }, () => connect({ host: hostname, port: Number(port) }));
    for (const socket of sockets) {
      open.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        open.delete(socket);
        over += 1;
      });
    }
    await expect.poll(() => over, { timeout: 9_000 }).toBe(32);
    expect(open.size).toBe(16);
  } finally {
    for (const socket of open) socket.destroy();
    await gateway.stop();
  }
});

describe("a worker that dies", () => {
  let workers: Worker[];
  let gateway: Gateway | undefined;
  const isWorker = ({ threadName }: Worker) => threadName?.startsWith("worker-") === true;
  const note = (thread: Worker) => {
    if (isWorker(thread)) workers.push(thread);
  };
  beforeEach(() => {
    workers = [];
    process.on("worker", note);
  });
  afterEach(async () => {
    process.off("worker", note);
    await gateway?.stop();
    gateway = undefined;
  });

  test("is replaced under load, and nothing that was acknowledged is lost", async () => {
    const running = await startGateway({ env });
    gateway = running;
    const token = await running.token();
    const acknowledged: string[] = [];
    let isOver = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const answer = await rest(running.url + evidence, {
          ...{ token, body: bodyOf(evidence), headers: ownConnection },
        }).catch(() => undefined);
        // Where the connection broke nobody was told anything.
        if (answer?.status === 200) acknowledged.push(answer.body.ingestion.receipt.record_id);
      }
    });
    const grows = async () => {
      const enough = acknowledged.length + 40;
      await expect.poll(() => acknowledged.length, { timeout: 30_000 }).toBeGreaterThan(enough);
    };
    await grows();
    const counted = total(await metric(running, "svc_calls_total"));
    await workers.at(-1)?.terminate();
    await expect.poll(() => workers.length, { timeout: 30_000 }).toBe(3);
    await expect
      .poll(async () => (await rest(`${running.opsUrl}/readyz`, {})).body.checks, { timeout: 30_000 })
      .toContainEqual({ name: "workers", status: "ok" });
    expect(total(await metric(running, "svc_calls_total"))).toBeGreaterThanOrEqual(counted);
    await grows();
    isOver = true;
    await Promise.all(callers);
    expect(running.logged.filter((line) => line.includes("a worker ended and is replaced"))).toHaveLength(1);
    const database = new DatabaseSync(join(running.dataDir, "platform.db"), { readOnly: true });
    const stored = new Set(
      database
        .prepare("SELECT record_id FROM entries")
        .all()
        .map(({ record_id }) => record_id),
    );
    database.close();
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    expect(new Set(acknowledged).size).toBe(acknowledged.length);
  });

  test("when it starts is the end of the start, with its reason", async () => {
    process.on("worker", (thread) => {
      if (thread.threadName === "worker-2") void thread.terminate();
    });
    try {
      await expect(startGateway({ env })).rejects.toThrow("SVC_WORKERS: a worker cannot start: it ended by itself");
    } finally {
      process.removeAllListeners("worker");
    }
  });

  test("and cannot be replaced ends the service with the reason", async () => {
    const running = await startGateway({ env });
    gateway = running;
    const [first] = workers;
    const spoil = (thread: Worker) => {
      if (isWorker(thread)) void thread.terminate();
    };
    process.on("worker", spoil);
    try {
      await first?.terminate();
      expect(await running.app.failed).toMatchObject({ message: "it ended by itself" });
    } finally {
      process.off("worker", spoil);
    }
    // The other serves until the service is stopped.
    const whoami = methodOn("/v1/sdk/whoami").restPath;
    expect((await rest(running.url + whoami, { token: await running.token() })).status).toBe(200);
  });

  test("of a defect that belongs to nobody lets others finish, and the service goes on", async () => {
    const issuer = await startStaticIssuer([newTestKey("ES256", "key-1").publicJwk]);
    const directory = await mkdtemp(join(tmpdir(), "svc-workers-"));
    const defects = new URL("../fixtures/defects.ts", import.meta.url);
    const settings = { ...serviceSettings(directory, issuer.url), ...env, NODE_OPTIONS: `--import=${defects}` };
    const service = await startService(directory, settings);
    try {
      const whoami = `${service.url}/v1/sdk/whoami`;
      const answer = await rest(whoami, { headers: { ...ownConnection, "x-defect": "nobody's" } });
      expect(answer.status).toBe(401);
      await service.line("a worker ended and is replaced");
      await expect
        .poll(async () => (await rest(`${service.opsUrl}/readyz`, {})).body.checks, { timeout: 30_000 })
        .toContainEqual({ name: "workers", status: "ok" });
      for (let i = 0; i < 8; i++) expect((await rest(whoami, { headers: ownConnection })).status).toBe(401);
      expect(service.lines.filter((line) => line.includes('"level":"fatal"'))).toHaveLength(1);
      service.child.kill("SIGTERM");
      expect(await service.ended).toEqual({ code: 0, signal: null });
    } finally {
      service.child.kill("SIGKILL");
      await issuer.stop();
      await rm(directory, { recursive: true });
    }
  });
});
