//! What comes in, and what goes out.

use crate::formula::Formula;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that is asked at once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Text of the Cedar schema that all policies are well-typed under.
    pub schema: String,
    /// Texts of one policy each, which the questions name by their index.
    pub policies: Vec<String>,
    /// How long the solver may look at one question.
    pub timeout_ms: u64,
    pub questions: Vec<Question>,
}

/// Whether two statements hold for the same requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Id of the action of the requests.
    pub action: String,
    /// A Cedar expression; it is asked about no request of which it does not hold. It must not fail.
    pub assuming: String,
    pub statements: [Statement; 2],
    /// Smaller ones, of which it follows: where the members of each pair hold for the same requests, so do `statements`.
    /// None where nothing smaller is known.
    pub sufficient: Vec<[Statement; 2]>,
}

/// Holds for a request where these policies can all be evaluated, and the formula is met.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    pub evaluable: Vec<usize>,
    pub holds: Formula,
}

/// What proves. Either the solver or the problem with it is there.
#[derive(Serialize)]
pub struct Prover {
    /// Version of Cedar.
    pub cedar: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One answer.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Always true: the statements hold for the same requests, whatever entities there are.
    Equal(bool),
    /// A request for which one holds and the other does not.
    Counterexample(Counterexample),
    /// Why neither is known.
    Undecided(String),
}

/// A request in Cedar's JSON forms.
#[derive(Serialize)]
pub struct Counterexample {
    /// `{ "type", "id" }`.
    pub principal: Value,
    pub context: Value,
    pub entities: Value,
}
