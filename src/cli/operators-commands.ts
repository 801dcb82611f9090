/** `operators …`: who may read every log on the operator listener. A running service reloads them within seconds. */
import { randomFillSync } from "node:crypto";
import { newSecret } from "../credentials/client-secret.ts";
import {
  formatOpsCredentials,
  hashOpsToken,
  isOperatorName,
  type OpsCredential,
  parseOpsCredentials,
} from "../credentials/ops-credentials.ts";
import { isFileError, readRegularFile } from "../files/file-system.ts";
import { updateFile } from "../files/update-file.ts";
import { type Context, command } from "./frame/command.ts";
import { loggedStepFlags } from "./frame/confirmation.ts";
import { Refusal, underSetting } from "./frame/output.ts";

const nameFlag = { "--name <name>": { says: "whose it is", required: true } } as const;

export const operatorsAddCommand = command({
  name: "operators add",
  says: "make an operator's credential and print its token, once, as the last line",
  options: nameFlag,
  run(context) {
    const { name } = context.options;
    if (!isOperatorName(name))
      throw new Refusal("--name: must be 1 to 64 letters, digits, dots, hyphens or underscores");
    const token = newSecret((bytes) => randomFillSync(bytes));
    change(context, (known) => {
      if (known.some((credential) => credential.name === name))
        throw new Refusal(`--name: ${name} is there already: remove it first`);
      return [...known, { name, hash: hashOpsToken(token) }];
    });
    return { value: { name, token }, text: `credential of ${name}; its token, which is not shown again:\n${token}` };
  },
});

export const operatorsListCommand = command({
  name: "operators list",
  says: "list whose credentials there are; never a token",
  run(context) {
    const names = readNames(context);
    return { value: { names }, text: names.join("\n") || "no credentials" };
  },
});

export const operatorsRemoveCommand = command({
  name: "operators remove",
  says: "remove a credential",
  options: { ...loggedStepFlags, ...nameFlag },
  run(context) {
    const { name } = context.options;
    const isMissing = new Refusal(`--name: ${name} is not there`);
    if (!readNames(context).includes(name)) throw isMissing;
    return {
      question: `Remove the credential of ${name}? The token will be invalid.`,
      preview: { text: `the credential of ${name} would be removed`, value: { would_remove: name } },
      take() {
        change(context, (known) => {
          const others = known.filter((credential) => credential.name !== name);
          if (others.length === known.length) throw isMissing;
          return others;
        });
        return { value: { name }, text: `credential of ${name} removed`, logged: { name } };
      },
    };
  },
});

function readNames({ load }: Pick<Context, "load">): readonly string[] {
  const path = load("ops_credentials").opsCredentials;
  return underSetting("SVC_OPS_CREDENTIALS", () => parseOpsCredentials(readIfThere(path))).map(({ name }) => name);
}

/** Replaces the credentials of the file in one step. If `next` throws, nothing is written. */
function change(
  { load }: Pick<Context, "load">,
  next: (known: readonly OpsCredential[]) => readonly OpsCredential[],
): void {
  const path = load("ops_credentials").opsCredentials;
  underSetting("SVC_OPS_CREDENTIALS", () =>
    updateFile(path, (text = "") => formatOpsCredentials(next(parseOpsCredentials(text)))),
  );
}

function readIfThere(path: string): string {
  try {
    return readRegularFile(path);
  } catch (error) {
    if (isFileError(error, ["ENOENT"])) return "";
    throw error;
  }
}
