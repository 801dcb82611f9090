//! The driver of the conformance suite: a JSON object a line says what to call, a line says what came of it.

mod messages;
mod protocol;
mod steps;
mod streams;

use std::error::Error;
use std::io::{self, BufRead, Write};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let case = serde_json::from_str(&line?)?;
        let answer = steps::run(case).await?;
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
    }
    Ok(())
}
