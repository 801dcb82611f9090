import { useState } from "preact/hooks";
import { useTitle } from "../hooks.ts";
import { Command, Drop, Facts, Json, Result } from "../parts.tsx";
import { shellWord } from "../query.ts";
import { keysIn, type Verified, verifyFile } from "../verify.ts";

/** More is no receipt, and no checkpoint. */
const maxBytes = 64 * 1024 * 1024;

type Outcome =
  | { readonly name: string; readonly verified: Verified }
  | { readonly name: string; readonly problem: string };

export function VerifyPage() {
  useTitle("Verify");
  const [keys, setKeys] = useState("");
  const [pasted, setPasted] = useState("");
  const [outcome, setOutcome] = useState<Outcome>();
  const check = async (name: string, read: () => Promise<string>) => {
    setOutcome(undefined);
    try {
      setOutcome({ name, verified: await verifyFile(await read(), keysIn(keys)) });
    } catch (error) {
      setOutcome({ name, problem: error instanceof Error ? error.message : String(error) });
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
          onInput={(event) => setKeys(event.currentTarget.value)}
        />
      </label>
      <Drop
        label="Drop an answer, a receipt or a checkpoint, or choose it"
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
              onInput={(event) => setPasted(event.currentTarget.value)}
            />
          </label>
          <button type="submit">Verify</button>
        </form>
      </details>
      <div role="status">{outcome !== undefined && <Told outcome={outcome} />}</div>
      <Command
        text={`svc-platform-api ledger receipt verify answer.json --key ${shellWord(keysIn(keys)[0] ?? "KEY")}`}
      />
      <p class="quiet">
        A receipt proves the record, not the answer around it: the command also compares the two. The command verifies
        packs too.
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

function whatIsProven({ leafIndex, record }: Verified): string {
  if (leafIndex === undefined) return "The key signed this state of the log.";
  if (record === undefined) return "The log holds this leaf. The receipt is brief, so it shows no record.";
  return "The log holds exactly this record. It may have been erased since.";
}
