//! Puts statements to the symbolic compiler and the solver.

use crate::formula::{all, evaluable};
use crate::wire::{Answer, Counterexample, Question, Request, Statement};
use cedar_policy::{EntityUid, Policy, PolicyId, PolicySet, RequestEnv, Schema};
use cedar_policy_symcc::solver::LocalSolver;
use cedar_policy_symcc::{CedarSymCompiler, CompiledPolicySet, Env};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;
use std::{env, process};
use tokio::process::Command;

/// The solver's executable.
pub struct SolverProgram {
    path: String,
    /// Its name and version.
    pub version: String,
}

/// The executable that `CVC5` names, else `cvc5` on the path; or what is wrong with it.
pub fn solver() -> Result<SolverProgram, String> {
    let path = env::var("CVC5").unwrap_or_else(|_| "cvc5".into());
    let said = process::Command::new(&path).arg("--version").output().map_err(|error| format!("{path}: {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    match text.lines().next() {
        Some(line) if said.status.success() => Ok(SolverProgram { version: named(line), path }),
        _ => Err(format!("{path} --version: {}", String::from_utf8_lossy(&said.stderr).trim())),
    }
}

/// Of `This is cvc5 version 1.3.1 [git …]`, `cvc5 1.3.1`; of anything else, all.
fn named(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["This", "is", name, "version", version, ..] => format!("{name} {version}"),
        _ => words.join(" "),
    }
}

/// Answers the questions of one request.
pub struct Prover {
    schema: Schema,
    /// Of each policy, when it applies.
    conditions: Vec<Value>,
    limit: Duration,
    solver: SolverProgram,
    /// Of pairs that were asked about, whether they are equal.
    known: RefCell<HashMap<String, bool>>,
}

type Fallible<T> = Result<T, Box<dyn Error>>;

impl Prover {
    /// Fails where the schema or a policy does not parse.
    pub fn new(request: &Request, solver: SolverProgram) -> Fallible<Self> {
        Ok(Self {
            schema: Schema::from_cedarschema_str(&request.schema)?.0,
            conditions: request.policies.iter().map(|text| condition_of(text)).collect::<Fallible<_>>()?,
            limit: Duration::from_millis(request.timeout_ms),
            solver,
            known: RefCell::default(),
        })
    }

    /// Undecided where anything at all goes wrong.
    pub async fn answer(&self, question: &Question) -> Answer {
        match tokio::time::timeout(self.limit, self.prove(question)).await {
            Ok(Ok(None)) => Answer::Equal(true),
            Ok(Ok(Some(counterexample))) => Answer::Counterexample(counterexample),
            Ok(Err(error)) => Answer::Undecided(error.to_string()),
            Err(_) => Answer::Undecided(format!("not decided within {} s", self.limit.as_secs_f32())),
        }
    }

    async fn prove(&self, question: &Question) -> Fallible<Option<Counterexample>> {
        let action: EntityUid = format!("Action::{}", Value::from(question.action.as_str())).parse()?;
        let mut environments = self.schema.request_envs().filter(|env| env.action() == &action);
        let (Some(env), None) = (environments.next(), environments.next()) else {
            return Err("the action has not one request environment".into());
        };
        let assuming =
            condition_of(&format!("permit (principal, action, resource) when {{ {} }};", question.assuming))?;
        if !question.sufficient.is_empty() && self.all_equal(question, &assuming, &env).await? {
            return Ok(None);
        }
        let [one, other] = &question.statements;
        let (one, other) = (self.compile(one, &assuming, &env)?, self.compile(other, &assuming, &env)?);
        let found = self.compiler()?.check_equivalent_with_counterexample_opt(&one, &other).await?;
        found.as_ref().map(counterexample).transpose()
    }

    /// Whether the sufficient pairs are equal. Many questions have the same ones.
    async fn all_equal(&self, question: &Question, assuming: &Value, env: &RequestEnv) -> Fallible<bool> {
        for pair in &question.sufficient {
            let key = serde_json::to_string(&(&question.action, &question.assuming, pair))?;
            let known = self.known.borrow().get(&key).copied();
            let is_equal = match known {
                Some(is_equal) => is_equal,
                None => {
                    let [one, other] = pair;
                    let (one, other) = (self.compile(one, assuming, env)?, self.compile(other, assuming, env)?);
                    self.compiler()?.check_equivalent_opt(&one, &other).await?
                }
            };
            self.known.borrow_mut().insert(key, is_equal);
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// With a solver of its own, which ends with it.
    fn compiler(&self) -> Fallible<CedarSymCompiler<LocalSolver>> {
        let mut command = Command::new(&self.solver.path);
        let solver = LocalSolver::from_command(command.args(["--lang", "smt"]).kill_on_drop(true))?;
        Ok(CedarSymCompiler::new(solver)?)
    }

    /// As a set of one permit, which allows where the statement holds: a policy that fails allows nothing.
    fn compile(&self, statement: &Statement, assuming: &Value, env: &RequestEnv) -> Fallible<CompiledPolicySet> {
        let condition = |index: &usize| self.conditions.get(*index).ok_or("no policy has this index");
        let mut parts = vec![assuming.clone()];
        for index in &statement.evaluable {
            parts.push(evaluable(condition(index)?));
        }
        parts.push(statement.holds.expression(&self.conditions).ok_or("no policy has this index")?);
        let permit = Policy::from_json(
            Some(PolicyId::new("statement")),
            json!({
                "effect": "permit",
                "principal": { "op": "All" },
                "action": { "op": "All" },
                "resource": { "op": "All" },
                "conditions": [{ "kind": "when", "body": all(&parts) }],
            }),
        )?;
        Ok(CompiledPolicySet::compile(&PolicySet::from_policies([permit])?, env, &self.schema)?)
    }
}

/// When the policy applies, scope included, as an expression in Cedar's JSON form.
fn condition_of(text: &str) -> Fallible<Value> {
    let policy = Policy::parse(None, text)?.to_json()?;
    let mut parts = Vec::new();
    for variable in ["principal", "action", "resource"] {
        parts.extend(scope(variable, &policy[variable])?);
    }
    for clause in policy["conditions"].as_array().ok_or("a policy has conditions")? {
        let body = clause["body"].clone();
        parts.push(if clause["kind"] == "unless" { json!({ "!": { "arg": body } }) } else { body });
    }
    Ok(all(&parts))
}

/// A constraint of a policy's scope; none where it admits everything.
fn scope(variable: &str, constraint: &Value) -> Fallible<Option<Value>> {
    let left = json!({ "Var": variable });
    let entity = |uid: &Value| json!({ "Value": { "__entity": uid } });
    let right = match (&constraint["entity"], &constraint["entities"]) {
        (Value::Null, Value::Array(uids)) => json!({ "Set": uids.iter().map(entity).collect::<Vec<_>>() }),
        (uid, _) => entity(uid),
    };
    match constraint["op"].as_str() {
        Some("All") => Ok(None),
        Some("==") => Ok(Some(json!({ "==": { "left": left, "right": right } }))),
        Some("in") => Ok(Some(json!({ "in": { "left": left, "right": right } }))),
        Some("is") => {
            let mut of_type = json!({ "left": left, "entity_type": constraint["entity_type"] });
            if let Some(within) = constraint["in"].as_object() {
                of_type["in"] = entity(&within["entity"]);
            }
            Ok(Some(json!({ "is": of_type })))
        }
        _ => Err("a scope of an unknown form".into()),
    }
}

fn counterexample(found: &Env) -> Fallible<Counterexample> {
    let principal = found.request.principal().ok_or("a counterexample without a principal")?;
    let context = found.request.context().ok_or("a counterexample without a context")?;
    Ok(Counterexample {
        principal: principal.to_json_value()?,
        context: context.to_json_value()?,
        entities: found.entities.to_json_value()?,
    })
}
