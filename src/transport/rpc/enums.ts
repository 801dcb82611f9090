/** Maps the domain's words to the numbers of enumerations in the protobuf definitions. */
import type { DescEnum } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/platform/sdk/v1/common_pb.ts";
import {
  ArtifactKindSchema,
  ArtifactProfileSchema,
  EvidenceEventTypeSchema,
  KeyAccessOperationSchema,
  ProtectionOperationSchema,
} from "../../../gen/platform/sdk/v1/common_pb.ts";
import { AuthModeSchema, type AuthMode as PbAuthMode } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import {
  artifactKinds,
  artifactProfiles,
  authModes,
  evidenceEventTypes,
  keyAccessOperations,
  protectionOperations,
} from "../../base/vocabulary.ts";
import { enumNames } from "../codec/normal-form.ts";

type Numbers<Word extends string, Value extends number> = Readonly<Record<Word, Value>>;

export const artifactKind = numbers<(typeof artifactKinds)[number], pb.ArtifactKind>(ArtifactKindSchema, artifactKinds);
export const artifactProfile = numbers<(typeof artifactProfiles)[number], pb.ArtifactProfile>(
  ArtifactProfileSchema,
  artifactProfiles,
);
export const authMode = numbers<(typeof authModes)[number], PbAuthMode>(AuthModeSchema, authModes);
export const evidenceEventType = numbers<(typeof evidenceEventTypes)[number], pb.EvidenceEventType>(
  EvidenceEventTypeSchema,
  evidenceEventTypes,
);
export const keyAccessOperation = numbers<(typeof keyAccessOperations)[number], pb.KeyAccessOperation>(
  KeyAccessOperationSchema,
  keyAccessOperations,
);
export const protectionOperation = numbers<(typeof protectionOperations)[number], pb.ProtectionOperation>(
  ProtectionOperationSchema,
  protectionOperations,
);

/** Throws at start-up if words and definition differ. */
function numbers<Word extends string, Value extends number>(
  desc: DescEnum,
  words: readonly Word[],
): Numbers<Word, Value> {
  const byName = new Map(
    [...enumNames(desc)].filter(([number]) => number !== 0).map(([number, name]) => [name, number]),
  );
  const differ = byName.size !== words.length || words.some((word) => !byName.has(word));
  if (differ) throw new Error(`${desc} is not the enumeration of the specification`);
  return Object.fromEntries(byName) as Numbers<Word, Value>;
}
