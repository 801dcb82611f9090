//! What a decision permits.

use crate::proto::{KeyAccessDecision, Obligation, PolicyDecision, ProtectionDecision};

/// What the three decisions have in common. Of an answer that has none, nothing is allowed.
pub trait Decision {
    /// Whether the platform allows the operation.
    fn allow(&self) -> bool;
    /// Identifiers of the policies that decided.
    fn reasons(&self) -> &[String];
    /// What must be done where the decision is taken.
    fn obligations(&self) -> &[Obligation];
}

macro_rules! decisions {
    ($($message:ty),*) => {
        $(impl Decision for $message {
            fn allow(&self) -> bool {
                self.allow
            }

            fn reasons(&self) -> &[String] {
                &self.reasons
            }

            fn obligations(&self) -> &[Obligation] {
                &self.obligations
            }
        })*
    };
}

decisions!(ProtectionDecision, PolicyDecision, KeyAccessDecision);

impl<D: Decision> Decision for Option<D> {
    fn allow(&self) -> bool {
        self.as_ref().is_some_and(Decision::allow)
    }

    fn reasons(&self) -> &[String] {
        self.as_ref().map_or(&[], Decision::reasons)
    }

    fn obligations(&self) -> &[Obligation] {
        self.as_ref().map_or(&[], Decision::obligations)
    }
}

/// An obligation that a program meets where a decision demands it. Made of a text, it is an id whose parameters the
/// program looks at itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderstoodObligation {
    pub(crate) id: String,
    parameters: Option<Vec<String>>,
}

impl UnderstoodObligation {
    /// An obligation of which these parameters are understood: with another one beside them it is not.
    pub fn with_parameters(id: impl Into<String>, parameters: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { id: id.into(), parameters: Some(parameters.into_iter().map(Into::into).collect()) }
    }

    fn covers(&self, obligation: &Obligation) -> bool {
        let knows = |known: &Vec<String>| obligation.parameters.keys().all(|name| known.contains(name));
        self.id == obligation.id && self.parameters.as_ref().is_none_or(knows)
    }
}

impl From<&str> for UnderstoodObligation {
    fn from(id: &str) -> Self {
        Self { id: id.to_owned(), parameters: None }
    }
}

/// The operation is not to be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the platform does not permit this: {}", self.told())]
#[non_exhaustive]
pub struct NotPermitted {
    /// Identifiers of the policies that decided.
    pub reasons: Vec<String>,
    /// Ids of obligations that this program does not meet, or not with these parameters; where there are some, the decision may be an allow.
    pub unknown_obligations: Vec<String>,
}

impl NotPermitted {
    fn told(&self) -> String {
        let of = |what: &str, ids: &[String]| (!ids.is_empty()).then(|| format!("{what} {}", ids.join(", ")));
        let parts = [of("reasons", &self.reasons), of("unknown obligations", &self.unknown_obligations)];
        let told = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if told.is_empty() { "no reason was given".to_owned() } else { told }
    }
}

/// Whether the operation may be carried out by a program that meets these obligations.
#[must_use]
pub fn permitted(decision: &impl Decision, understood: &[UnderstoodObligation]) -> bool {
    require_allow(decision, understood).is_ok()
}

/// Passes an allow whose obligations are all understood, and nothing else. What is understood must still be met, each
/// obligation with its parameters, before the decision is acted on.
///
/// # Errors
/// [`NotPermitted`] for anything else, an answer without a decision included.
pub fn require_allow(decision: &impl Decision, understood: &[UnderstoodObligation]) -> Result<(), NotPermitted> {
    let mut unknown = Vec::new();
    for obligation in decision.obligations() {
        if !understood.iter().any(|known| known.covers(obligation)) && !unknown.contains(&obligation.id) {
            unknown.push(obligation.id.clone());
        }
    }
    if decision.allow() && unknown.is_empty() {
        return Ok(());
    }
    Err(NotPermitted { reasons: decision.reasons().to_vec(), unknown_obligations: unknown })
}
