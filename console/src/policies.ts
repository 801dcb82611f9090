/** The policy routes of the operator listener. */
import { answerOf, type Explained } from "./api.ts";

/** A policy in force. */
export interface Policy {
  readonly layer: string;
  readonly set: string;
  readonly id: string;
  readonly file: string;
  readonly line: number;
  readonly effect: string;
  readonly description?: string;
}

/** A revision under which the log has decisions. */
export interface Revision {
  readonly revision: string;
  readonly first_at: string;
  readonly last_at: string;
  readonly decisions: number;
}

export interface Policies {
  readonly current_revision: string;
  readonly policies: readonly Policy[];
  /** Newest first. */
  readonly revisions: readonly Revision[];
  /** Leaves of the log that were read for revisions. */
  readonly leaves: { readonly from: number; readonly to: number };
}

export type Files = Readonly<Record<string, string>>;

export interface Texts {
  readonly layers: readonly { readonly layer: string; readonly set: string; readonly files: Files }[];
}

export interface Directory {
  readonly current_revision: string;
  /** False if the directory has newer files, which were refused or not loaded yet. */
  readonly in_force: boolean;
  readonly files: Files;
}

export interface Problem {
  readonly file: string;
  readonly line?: number;
  readonly message: string;
  readonly hint?: string;
  readonly excerpt?: string;
}

interface Verdict {
  readonly allow: boolean;
  readonly reasons: readonly string[];
}

/** A way in which decisions differ. */
export interface Way {
  readonly kind: string;
  readonly before: Verdict;
  readonly after: Verdict;
}

/** What a draft does; `problems` alone if it has any. */
export interface Trial {
  readonly problems?: readonly Problem[];
  readonly current_revision: string;
  readonly policy_revision: string;
  readonly policies: number;
  readonly tests: {
    readonly passed: number;
    readonly failed: number;
    readonly tests: readonly {
      readonly name: string;
      readonly file: string;
      readonly line: number;
      readonly differences: readonly string[];
    }[];
    readonly unexercised: readonly Pick<Policy, "set" | "id" | "file" | "line">[];
  };
  readonly answers: readonly {
    readonly tenant: string;
    readonly action: string;
    readonly problems: readonly string[];
    readonly in_force: Verdict;
    readonly explanation: NonNullable<Explained["explanation"]>;
  }[];
  readonly diff: {
    readonly changes: number;
    readonly asked: number;
    readonly summary: readonly {
      readonly set?: string;
      readonly id: string;
      readonly change: string;
      readonly lines: readonly string[];
    }[];
    readonly ways: readonly (Way & {
      readonly tenants: readonly string[];
      readonly actions: readonly string[];
      readonly example: object;
    })[];
  };
  /** Absent unless asked for. */
  readonly recorded?: {
    readonly compared: number;
    readonly erased: number;
    readonly not_askable: number;
    readonly not_looked_up: number;
    /** Whether older decisions of the period were left out. */
    readonly cut: boolean;
    readonly ways: readonly (Way & { readonly count: number; readonly example: { readonly decision_id: string } })[];
  };
}

/** What is tried. Nothing of it is kept by the listener. */
export interface Draft {
  readonly files: Files;
  readonly questions: string;
  readonly since?: string;
}

export function policiesOf(log: string): Promise<Policies> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/policies`);
}

export function textsOf(log: string, revision: string): Promise<Texts> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/policies/${encodeURIComponent(revision)}`);
}

export function directoryOf(log: string): Promise<Directory> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/playground`);
}

export function tryDraft(log: string, draft: Draft, signal: AbortSignal): Promise<Trial> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/playground`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(draft),
    signal,
  });
}

/** Paths of files that are not the same on both sides, in order. */
export function changedFiles(before: Files, after: Files): readonly string[] {
  const paths = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...paths].filter((path) => before[path] !== after[path]).sort();
}

/** A name that a decision gives its policy. */
export function reasonOf({ layer, id }: Policy): string {
  return `${layer}/${id}`;
}
