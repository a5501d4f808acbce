//! Telling what is wrong with files, without serving.

use std::path::PathBuf;

use super::cli::tell;
use super::config::{self, FileKind};
use super::exit::Exit;
use super::surroundings;

/// The arguments of `tidegate validate`.
#[derive(clap::Args)]
pub(super) struct ValidateArgs {
    /// Config files, rule files, and directories of rule files
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// What the files are; without it, a file with nothing but rules is a rule file
    #[arg(long, value_enum)]
    kind: Option<FileKind>,
}

/// Tells all faults of all files; for a sound one, what is in it.
pub(super) fn validate(args: &ValidateArgs) -> Exit {
    let surroundings = surroundings::of_this_process();
    let mut exit = Exit::Done;
    for file in &args.files {
        match config::validate(file, args.kind, &surroundings) {
            Ok(sound) => {
                println!("{}: {sound}", file.display());
                for warning in &sound.warnings {
                    eprintln!("tidegate: {warning} (a warning)");
                }
            }
            Err(faults) => exit = tell(&faults),
        }
    }
    exit
}
