/**
 * The questions of an OpenTDF key access service (KAS): may this user have the key of a file with these attributes? A
 * file that was protected here names its decision among its attributes, which leads to what was registered of it.
 */
import type { Caller } from "../base/caller.ts";
import { parseRecordId, type RecordId } from "../base/ids.ts";
import type { ArtifactProfile } from "../base/vocabulary.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import { obligationName } from "../policy/guidance/obligations.ts";
import type { Decided } from "./decision.ts";
import { ownSubjectType, type Question } from "./evaluation-request.ts";

/** Names of attribute values, `https://<namespace>/attr/<name>/value/<value>`; compared in lower case. */
const attributePattern = /^https:\/\/([^/]+)\/attr\/([^/]+)\/value\/([^/]+)$/;
/** Longest entry of `understood_obligations`. */
const maxUnderstood = 128;

/** What the attributes of a file say. */
export interface TdfFile {
  readonly namespace: string;
  /** The decision to protect it; undefined for a file that was protected elsewhere. */
  readonly decisionId: RecordId | undefined;
  /** Labels of a file that was protected here; other attributes are labels by their whole name. */
  readonly labels: readonly string[];
}

/**
 * Reads the attributes; undefined if they name several decisions, because the registrations of only one would count.
 * A value that is not a decision's id belongs to an attribute of another organisation.
 *
 * @param attributes not empty
 */
export function tdfFile(attributes: readonly string[]): TdfFile | undefined {
  const names = [...new Set(attributes.map((attribute) => attribute.toLowerCase()))];
  const parsed = names.map((text) => {
    const [, namespace = "", name, value = ""] = attributePattern.exec(text) ?? [];
    return { text, namespace, name, value, decisionId: name === "decision" ? parseRecordId(value) : undefined };
  });
  const [decision, ...others] = parsed.filter(({ decisionId }) => decisionId !== undefined);
  if (others.length > 0) return undefined;
  const { namespace = "" } = decision ?? parsed[0] ?? {};
  const labels = parsed
    .filter((one) => one !== decision)
    .map(({ text, name, value, ...one }) =>
      decision !== undefined && name === "label" && one.namespace === namespace ? value : text,
    );
  return { namespace, decisionId: decision?.decisionId, labels: [...new Set(labels)] };
}

/**
 * Returns the question. The claims of the user's token are properties of its subject.
 *
 * @param registration of the file, if it is known
 */
export function tdfQuestion(
  file: TdfFile,
  user: Caller,
  action: string,
  fulfillable: readonly string[],
  registration: StoredRecord | undefined,
): Question {
  const { resource, artifact_digest } = registration?.request ?? {};
  const { kind = "tdf", id = "" } = (resource ?? {}) as { readonly kind?: string; readonly id?: string };
  const profile: ArtifactProfile = "tdf";
  const prefix = `https://${file.namespace}/obl/`;
  const understood = fulfillable
    .map((name) => name.toLowerCase())
    .filter((name) => name.startsWith(prefix) && name.length <= maxUnderstood);
  return {
    subject: { type: ownSubjectType, id: user.principalId, properties: { subject: user.subject, ...user.attributes } },
    // OpenTDF's action for opening a file.
    action: { name: action === "read" ? "unwrap" : action, properties: {} },
    resource: {
      ...{ type: kind, id },
      properties: {
        labels: file.labels,
        artifact_profile: profile,
        ...(artifact_digest !== undefined && { artifact_digest }),
      },
    },
    context: { understood_obligations: [...new Set(understood)] },
  };
}

/** OpenTDF's names of the obligations that the reader must fulfil, or would have to. */
export function requiredObligations({ obligations, unmet }: Decided, { namespace }: TdfFile): readonly string[] {
  return [...obligations, ...unmet].flatMap((obligation) => obligationName(obligation, namespace) ?? []);
}
