import { useRef, useState } from "preact/hooks";
import { useTitle } from "../hooks.ts";
import { isPack, type VerifiedPack, verifyPack } from "../pack.ts";
import { Command, Drop, Facts, Json, Result } from "../parts.tsx";
import { shellWord } from "../query.ts";
import { keysIn, type LedgerRecord, type Verified, verifyFile } from "../verify.ts";

/** Larger packs are for the command. */
const maxBytes = 64 * 1024 * 1024;

/** Records of a pack that are listed; the command lists all. */
const maxListed = 500;

type Outcome =
  | { readonly name: string; readonly pack: VerifiedPack }
  | { readonly name: string; readonly verified: Verified }
  | { readonly name: string; readonly problem: string };

export function VerifyPage() {
  useTitle("Verify");
  const [keys, setKeys] = useState("");
  const [pasted, setPasted] = useState("");
  const [outcome, setOutcome] = useState<Outcome>();
  const [progress, setProgress] = useState("");
  const checks = useRef(0);
  /** Drops what is shown, and what is still being checked: it is of other keys, or of another text. */
  const forget = () => {
    setOutcome(undefined);
    setProgress("");
    return ++checks.current;
  };
  const check = async (name: string, read: () => Promise<string>) => {
    const own = forget();
    const report = (progress: string, next?: Outcome) => {
      if (own !== checks.current) return;
      setProgress(progress);
      setOutcome(next);
    };
    try {
      const text = await read();
      const progress = (entries: number) => report(`${entries} entries so far`);
      if (isPack(text)) report("", { name, pack: await verifyPack(text, keysIn(keys), progress) });
      else report("", { name, verified: await verifyFile(text, keysIn(keys)) });
    } catch (error) {
      report("", { name, problem: error instanceof Error ? error.message : String(error) });
    }
  };
  const checkFile = (file: File) =>
    check(file.name, () => (file.size > maxBytes ? Promise.reject(new Error("the file is too large")) : file.text()));
  return (
    <>
      <h1>Verify</h1>
      <p>
        Proves offline that a log holds a record. This page needs no sign-in, and uses no network once it is loaded.
      </p>
      <label>
        <span>Key of the log, from its operator, never from the proof. One on each line if there are several</span>
        <textarea
          rows={3}
          value={keys}
          spellcheck={false}
          placeholder="logs.example.com/evidence/0123…+530d903a+AekyeR…"
          onInput={(event) => {
            forget();
            setKeys(event.currentTarget.value);
          }}
        />
      </label>
      <Drop
        label="Drop an answer, a receipt, a checkpoint or a pack, or choose it"
        note="It stays on this machine."
        onFile={checkFile}
      />
      <details>
        <summary>Or paste it</summary>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void check("what you pasted", async () => pasted);
          }}
        >
          <label>
            <span>Answer, receipt or checkpoint</span>
            <textarea
              rows={8}
              value={pasted}
              spellcheck={false}
              onInput={(event) => {
                forget();
                setPasted(event.currentTarget.value);
              }}
            />
          </label>
          <button type="submit">Verify</button>
        </form>
      </details>
      <p class="note" role="status">
        {progress}
      </p>
      <div role="status">{outcome !== undefined && <Told outcome={outcome} />}</div>
      <Command
        text={`svc-platform-api ledger receipt verify answer.json --key ${shellWord(keysIn(keys)[0] ?? "KEY")}`}
      />
      <p class="quiet">
        A receipt proves the record, not the answer around it: the command also compares the two. Of a pack, the command{" "}
        <code>ledger pack verify</code> also tells the history of each artifact, and how much of a selection it proves.
      </p>
    </>
  );
}

function Told({ outcome }: { readonly outcome: Outcome }) {
  if ("problem" in outcome)
    return (
      <section class="proof failed">
        <h2>
          <Result word="refused" /> {outcome.name} does not verify
        </h2>
        <p>{outcome.problem}</p>
      </section>
    );
  if ("pack" in outcome) return <ToldPack name={outcome.name} pack={outcome.pack} />;
  const { origin, size, root, leafIndex, record } = outcome.verified;
  return (
    <section class="proof done">
      <h2>
        <Result word="ok" /> {outcome.name} verifies
      </h2>
      <p>{whatIsProven(outcome.verified)}</p>
      <Facts
        pairs={[
          ["Log", origin],
          ["Leaf", leafIndex === undefined ? undefined : `${leafIndex} of ${size}`],
          ["Size", leafIndex === undefined ? String(size) : undefined],
          ["Root", <code>{root}</code>],
        ]}
      />
      {record !== undefined && <Json value={record} />}
    </section>
  );
}

function ToldPack({ name, pack }: { readonly name: string; readonly pack: VerifiedPack }) {
  const { origin, size, root, tenant, selection, madeAt, erased, records, range, policies } = pack;
  return (
    <section class="proof done">
      <h2>
        <Result word="ok" /> {name} verifies
      </h2>
      <p>
        Every leaf is in the log at its place, and every record is exactly the one that its leaf commits to.{" "}
        {range === undefined
          ? "It is a selection by value: nothing here shows that none is left out."
          : range.isClosed
            ? "Nothing that the log holds of the period is left out."
            : "Nothing that the log held of the period is left out; records of it may have come since."}
      </p>
      <Facts
        pairs={[
          ["Tenant", records.length === 0 ? `${tenant}, according to its maker: no record shows it` : tenant],
          ["Log", origin],
          [
            "Selection",
            Object.entries(selection)
              .map(([member, value]) => `${member} ${String(value)}`)
              .join(", "),
          ],
          ["Records", `${records.length}${erased === 0 ? "" : `, and ${erased} that were erased`}`],
          ["Policy revisions", String(policies)],
          ["Size", String(size)],
          ["Root", <code>{root}</code>],
          ["Made", `${madeAt}, according to its maker`],
        ]}
      />
      {records.length > maxListed && <p class="note">The first {maxListed} records.</p>}
      <div class="wide">
        <table class="rows">
          <thead>
            <tr>
              {["Leaf", "Time (UTC)", "Kind", "Who", "Result", "Record"].map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {records.slice(0, maxListed).map(({ leafIndex, record }) => (
              <tr key={leafIndex}>
                <PackCell name="Leaf">{String(leafIndex)}</PackCell>
                <PackCell name="Time">{record.recorded_at}</PackCell>
                <PackCell name="Kind">{`${record.kind.replaceAll("_", " ")} ${textIn(record.request.operation)}`}</PackCell>
                <PackCell name="Who">{record.caller.principal_id}</PackCell>
                <PackCell name="Result">{resultOf(record)}</PackCell>
                <PackCell name="Record">{record.record_id}</PackCell>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function PackCell({ name, children }: { readonly name: string; readonly children: string }) {
  return (
    <td data-name={name}>
      <span>{children}</span>
    </td>
  );
}

function resultOf({ kind, request, outcome }: LedgerRecord): string {
  if (kind === "decision") return outcome.allow === true ? "allowed" : "denied";
  if (kind === "registration") return outcome.accepted === true ? "accepted" : "refused";
  return textIn(request.outcome);
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function whatIsProven({ leafIndex, record }: Verified): string {
  if (leafIndex === undefined) return "The key signed this state of the log.";
  if (record === undefined) return "The log holds this leaf. The receipt is brief, so it shows no record.";
  return "The log holds exactly this record. It may have been erased since.";
}
