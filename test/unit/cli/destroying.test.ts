/** Commands that destroy something, or do what cannot be undone: none does so without an explicit option. */
import { join } from "node:path";
import type { Command } from "commander";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { commandsOf, runCommandLine } from "../../../src/cli/run.ts";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import { directory, eachWithStore, erasing, hashes, refused, removeDatabase, run, served } from "./surroundings.ts";
import { captureTerminal } from "./terminal.ts";

const statement = erasing.slice(0, -1);

eachWithStore();
beforeEach(() => {
  vi.stubEnv("SVC_SESSION_CLIENTS", join(directory, "clients"));
  vi.stubEnv("SVC_OPS_CREDENTIALS", join(directory, "operators"));
});

/** What a service does between two starts. Gives the id of a record of alice. */
async function serve(clock: Clock = systemClock): Promise<string> {
  const [record] = await served(["alice"], clock);
  return record?.recordId ?? "";
}

/** Commands whose record in the ledger names operator and reason. */
const recorded = [
  "keys rotate",
  "ledger anchor adopt",
  "ledger clock accept",
  "ledger erase",
  "ledger hold release",
  "ledger reapply-erasures",
];
/** Commands without a ledger: a line of the log names both. */
const logged = ["clients remove", "clients rotate", "operators remove", "store copy"];
const destroying = [...recorded, ...logged];
/** These add something, or rebuild an index, or only read. */
const harmless = [
  ...["serve", "doctor", "migrate", "keys generate", "keys show", "clients add", "clients list", "operators add"],
  ...[
    "operators list",
    "policy init",
    "policy check",
    "policy test",
    "policy explain",
    "policy replay",
    "policy schema",
    "policy diff",
  ],
  ...[
    "ledger verify",
    "ledger export",
    "ledger pack",
    "ledger pack verify",
    "ledger pack show",
    "ledger search",
    "ledger report",
    "ledger reindex",
  ],
  ...["ledger hold place", "ledger hold list", "ledger receipt", "ledger receipt verify", "store backup"],
  "store compact",
];

function leavesOf(command: Command, above: readonly string[] = []): readonly (readonly [string, Command])[] {
  return command.commands.flatMap((each) => {
    const name = [...above, each.name()];
    const own =
      each.commands.length === 0 || ["pack", "receipt"].includes(each.name()) ? [[name.join(" "), each] as const] : [];
    return [...own, ...leavesOf(each, name)];
  });
}

test("every command is listed as destructive or not, and has the matching options", () => {
  const commands = leavesOf(commandsOf(captureTerminal().terminal));
  expect(commands.map(([name]) => name).sort()).toEqual([...destroying, ...harmless].sort());
  const having = (option: string) =>
    commands.filter(([, { options }]) => options.some(({ long }) => long === option)).map(([name]) => name);
  for (const option of ["--yes", "--dry-run"]) expect(having(option).sort()).toEqual([...destroying].sort());
  expect(having("--operator").sort()).toEqual([...destroying].sort());
});

/** A command on a state that it would change; of the store's files that say something by themselves. */
const cases: Readonly<Record<string, () => Promise<readonly string[]>>> = {
  "keys rotate": async () => {
    await serve();
    return statement;
  },
  "keys rotate --finish": async () => {
    await serve();
    await run("keys", "rotate", ...erasing);
    await serve();
    return [];
  },
  "ledger anchor adopt --accept-unproven-state": async () => {
    await serve();
    removeDatabase(storeIn(directory).anchorPath);
    return statement;
  },
  "ledger clock accept": async () => {
    await serve(manualClock(Date.now() + 1_800_000));
    return statement;
  },
  "ledger erase --tenant alice": async () => ["--record", await serve(), ...statement],
  "ledger hold release --tenant alice": async () => {
    await serve();
    await run("ledger", "hold", "place", "--tenant", "alice", "--reason", "case 12");
    return statement;
  },
  "clients remove --tenant t --client c": addClient,
  "clients rotate --tenant t --client c": addClient,
  "operators remove --name olga": async () => {
    await run("operators", "add", "--name", "olga");
    return statement;
  },
};

async function addClient(): Promise<readonly string[]> {
  await run("clients", "add", "--tenant", "t", "--client", "c", "--scopes", "a");
  return statement;
}

describe.each(Object.entries(cases))("%s", (name, prepare) => {
  test("does nothing on a dry run, unstated, without a word or with another one, and what it names with yes", async () => {
    const command = [...name.split(" "), ...(await prepare())];
    const before = hashes();
    const answering = async (answer: string) => {
      const { terminal, written } = captureTerminal();
      await runCommandLine(command, { ...terminal, ask: async () => answer });
      return written;
    };
    const dry = await run(...command, "--dry-run");
    expect([dry.code, dry.err]).toEqual([0, ""]);
    expect(dry.out).toMatch(/would/);
    expect(JSON.parse((await run(...command, "--dry-run", "--json")).out)).toMatchObject({ ok: true, dry_run: true });
    const unstated = command.slice(0, command.indexOf("--reason"));
    if (command.includes("--reason"))
      await refused(run(...unstated, "--yes"), "--reason: is required\n--operator: is required\n");
    expect((await run(...command)).err).toBe(
      "nothing was done: there is no terminal to confirm it at, and --yes was not given\n",
    );
    for (const answer of ["", "y", "no"]) await refused(answering(answer), "nothing was done\n");
    expect(hashes()).toEqual(before);
    const { code, err } = await answering("yes");
    expect(code).toBe(0);
    const stated = { category: "administration", operator: "olga", reason: "request 1" };
    const loggedAs = logged.find((each) => name.startsWith(each));
    if (loggedAs === undefined) expect(err).toBe("");
    else expect(JSON.parse(err)).toMatchObject({ level: "info", command: loggedAs, ...stated });
    expect(hashes()).not.toEqual(before);
  });
});

test.each([
  ["keys rotate", "key_rotation"],
  ["ledger hold release --tenant alice", "hold_release"],
  ["ledger erase --tenant alice", "erasure"],
])("%s records who did it, and why", async (name, kind) => {
  const options = (await cases[name]?.()) ?? [];
  const command = [...name.split(" "), ...options.slice(0, options.indexOf("--reason"))];
  // Whatever a reason looks like: it stands beside a key for a while.
  const reason = "yearly -----BEGIN PRIVATE KEY-----\n\u2028 “–”";
  expect(await run(...command, "--yes", "--operator", "olga", "--reason", reason)).toMatchObject({ code: 0 });
  await serve();
  const { found } = JSON.parse((await run("ledger", "search", "--tenant", "alice", "--records", "--json")).out);
  const records = found.flatMap(({ record }: { record?: { kind: string } }) => (record?.kind === kind ? [record] : []));
  expect(records).toMatchObject([
    { caller: { principal_id: "olga", subject: "olga", auth_source: "operator" }, request: { reason } },
  ]);
  expect(await run("ledger", "verify")).toMatchObject({ code: 0 });
});
