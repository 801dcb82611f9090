/**
 * Attributes of the caller that the operator declares, to be read from credentials beside those that are built in:
 * their names, types and values.
 */

/** Types that an attribute can have: text, set of text, whole number, yes or no. */
export const attributeTypes = ["text", "set_of_text", "whole_number", "yes_no"] as const;
export type AttributeType = (typeof attributeTypes)[number];

/** A value: text, number, yes or no, or a set of text. */
export type AttributeValue = string | number | boolean | readonly string[];

/** Values by the name of their attribute. Only own properties count: no name is special. */
export type AttributeValues = Readonly<Record<string, AttributeValue>>;

/** What the operator declares of one attribute. */
export interface AttributeDeclaration {
  readonly type: AttributeType;
  /** Where a token has it: names of members within each other, the outermost first. */
  readonly claim: readonly string[];
  /** Whether credentials without it, or with a value of another type, are refused. Otherwise it is absent. */
  readonly required: boolean;
}

/** Declarations by the name of their attribute. */
export type AttributeDeclarations = Readonly<Record<string, AttributeDeclaration>>;
