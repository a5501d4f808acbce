//! The `tidegate` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::app::run(std::env::args_os()).into()
}
