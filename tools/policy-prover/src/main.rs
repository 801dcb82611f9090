//! Proves whether policies decide alike, with Cedar's symbolic compiler and the solver cvc5.
//!
//! One JSON document comes from standard input (`wire::Request`). The first line of the answer says what proves
//! (`wire::Prover`); a line for each question follows, in their order (`wire::Answer`). What is wrong with the document
//! itself is told on standard error, and the program ends with 1.

mod formula;
mod prove;
mod wire;

use std::error::Error;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::thread;

/// Policies of thousands of conditions are trees that are walked recursively.
const STACK_BYTES: usize = 512 * 1024 * 1024;

fn main() -> ExitCode {
    let run = || answer_all().map_err(|error| eprintln!("policy-prover: {error}"));
    match thread::Builder::new().stack_size(STACK_BYTES).spawn(run).map(|thread| thread.join()) {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn answer_all() -> Result<(), Box<dyn Error>> {
    let request: wire::Request = serde_json::from_reader(io::stdin().lock())?;
    let solver = prove::solver();
    write_line(&wire::Prover {
        cedar: cedar_policy::get_sdk_version().to_string(),
        solver: solver.as_ref().ok().map(|solver| solver.version.clone()),
        problem: solver.as_ref().err().cloned(),
    })?;
    let Ok(solver) = solver else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let prover = prove::Prover::new(&request, solver)?;
    for question in &request.questions {
        // The compiler asserts what it takes for granted; where it was wrong in that, the next question is another.
        let answered = catch_unwind(AssertUnwindSafe(|| runtime.block_on(prover.answer(question))));
        write_line(&answered.unwrap_or_else(|_| wire::Answer::Undecided("the compiler failed".into())))?;
    }
    Ok(())
}

fn write_line(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}
