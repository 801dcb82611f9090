//! Statements about policies as one expression of Cedar, in its JSON form.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which policies apply, by their index.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Formula {
    All(Vec<Formula>),
    Any(Vec<Formula>),
    Not(Box<Formula>),
    Applies(usize),
}

impl Formula {
    /// The expression that is the formula where no policy fails; `None` for an index without a policy.
    pub fn expression(&self, conditions: &[Value]) -> Option<Value> {
        match self {
            Formula::All(parts) => Some(all(&expressions(parts, conditions)?)),
            Formula::Any(parts) => Some(joined("||", false, &expressions(parts, conditions)?)),
            Formula::Not(part) => Some(json!({ "!": { "arg": part.expression(conditions)? } })),
            Formula::Applies(index) => conditions.get(*index).cloned(),
        }
    }
}

fn expressions(parts: &[Formula], conditions: &[Value]) -> Option<Vec<Value>> {
    parts.iter().map(|part| part.expression(conditions)).collect()
}

/// Evaluates the expression, fails where it fails, and is true otherwise.
pub fn evaluable(expression: &Value) -> Value {
    json!({ "if-then-else": { "if": expression, "then": { "Value": true }, "else": { "Value": true } } })
}

/// The conjunction, from left to right.
pub fn all(parts: &[Value]) -> Value {
    joined("&&", true, parts)
}

/// Halves, so that the depth of the tree is the logarithm of the number of parts.
fn joined(operator: &str, of_none: bool, parts: &[Value]) -> Value {
    match parts {
        [] => json!({ "Value": of_none }),
        [part] => part.clone(),
        _ => {
            let (left, right) = parts.split_at(parts.len() / 2);
            json!({ operator: {
                "left": joined(operator, of_none, left),
                "right": joined(operator, of_none, right),
            } })
        }
    }
}
