import { expect, test } from "vitest";
import { openCheckpoint, parseCheckpoint, signCheckpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { openNote, parseNote, signNote } from "../../../src/ledger/tlog/note.ts";
import { formatVerifierKey, noteSigner, parseVerifierKey, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { must } from "../domain/world.ts";

// The example of C2SP signed-note.
const exampleKey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const exampleNote = `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`;

const key = signingKeyOf(new Uint8Array(32).fill(7));
const signer = noteSigner("example.com/log", key);
const verifier = must(parseVerifierKey(formatVerifierKey("example.com/log", key.publicKey)));

test("the published example verifies", () => {
  expect(openNote(exampleNote, must(parseVerifierKey(exampleKey)))).toBe("This is an example message.\n");
});

test.each([
  ["an empty part for signatures", "text\n\n"],
  ["another dash", exampleNote.replace("—", "-")],
  ["a signature without a name", exampleNote.replace("example.com/foo ", "")],
  ["a name with a plus sign", exampleNote.replace("example.com/foo", "example.com+foo")],
  ["a signature that is only an id", "text\n\n— a AAAAAA==\n"],
  ["two spaces", exampleNote.replace("— ", "—  ")],
  ["a control character", exampleNote.replace("This", "Th\tis")],
  ["a lone surrogate", `\ud800${exampleNote}`],
  ["more than 256 KiB", `${"x".repeat(256 * 1024)}${exampleNote}`],
])("a note with %s is refused", (_, note) => {
  expect(() => parseNote(note)).toThrow(expect.objectContaining({ name: "NoteError" }));
});

test.each([
  "",
  "name",
  exampleKey.replace("530d903a", "530d903b"),
  exampleKey.replace("530d903a", "530D903A"),
  exampleKey.replace("+Aeky", "+Beky"),
  `${exampleKey}=`,
  exampleKey.slice(0, -4),
  exampleKey.replace("example.com", "example com"),
  `+${exampleKey}`,
])("%j is no verifier key", (vkey) => {
  expect(parseVerifierKey(vkey)).toBeUndefined();
});

const checkpoint = { origin: "example.com/log", size: 109_482, root: new Uint8Array(32).fill(3) };

test("a checkpoint opens for its log's key only", () => {
  expect(openCheckpoint(signCheckpoint(checkpoint, [signer]), verifier)).toEqual({
    ...checkpoint,
    root: Buffer.from(checkpoint.root),
  });
  const foreign = signCheckpoint({ ...checkpoint, origin: "example.com/another" }, [signer]);
  expect(() => openCheckpoint(foreign, verifier)).toThrow("another log");
});

const rootText = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";
test.each([
  ["no root", "example.com/log\n1\n"],
  ["no origin", `\n1\n${rootText}\n`],
  ["an empty size", `example.com/log\n\n${rootText}\n`],
  ["a size with a leading zero", `example.com/log\n01\n${rootText}\n`],
  ["a negative size", `example.com/log\n-1\n${rootText}\n`],
  ["a size with a plus sign", `example.com/log\n+1\n${rootText}\n`],
  ["a size beyond 2^53 - 1", `example.com/log\n9007199254740992\n${rootText}\n`],
  ["a size in another notation", `example.com/log\n1e3\n${rootText}\n`],
  ["a short root", "example.com/log\n1\nAwMD\n"],
  ["a root that is no base64", `example.com/log\n1\n${rootText.replace("=", "")}\n`],
  ["an empty extension", `example.com/log\n1\n${rootText}\n\nmore\n`],
])("a checkpoint with %s is refused", (_, text) => {
  expect(() => parseCheckpoint(signNote(text, [signer]))).toThrow("malformed");
});
