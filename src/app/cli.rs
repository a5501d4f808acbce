//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};

use super::check::{self, CheckArgs};
use super::config::{self, Given, KEYS, Origin};
use super::exit::Exit;
use super::fleet_command::{self, RulesArgs};
use super::simulate::{self, SimulateArgs};
use super::validate::{self, ValidateArgs};
use super::{serve, surroundings};
use crate::units::Nanos;

/// Answers "may this caller do this now?" from memory, for a whole fleet.
#[derive(Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

const EXIT_CODES: &str = "\
Exit codes:
   0  done; check: allowed, or ready
   1  check: refused by a limit, or not ready; serve: ended by a second signal;
      rules: they differ, somebody was faster, or there are none
   2  the command line, the configuration or the question is wrong
  69  check: no answer, or the store is lost; serve: an address cannot be listened on;
      rules: the store cannot be asked
  70  an internal error";

#[derive(Subcommand)]
enum Commands {
    /// Serve checks
    #[command(after_help = PRECEDENCE)]
    Serve(Box<ServeArgs>),
    /// Tell all that is wrong with config files and rule files
    Validate(ValidateArgs),
    /// Ask a running daemon; the exit code is its answer
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Put the fleet's rules into the store, fetch and compare them
    Rules(RulesArgs),
    /// Simulate a fleet, to choose its sync interval
    #[command(long_about = simulate::LONG, after_help = simulate::NOTES)]
    Simulate(Box<SimulateArgs>),
}

const PRECEDENCE: &str = "\
A flag wins over its environment variable, a variable over the config file, the
file over the defaults. Lists in variables are separated by commas. With no flag
at all: config/tidegate.yaml if it is there, else the same as it was built in.
An address is unix:PATH or HOST:PORT; a duration is 250ms, 1s, 1m30s or 1h.";

#[derive(Args)]
struct ServeArgs {
    /// The config file (.yaml, .yml, .toml or .json)
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    /// How long to wait for the config file and the rule files to appear
    #[arg(
        long,
        value_name = "DURATION",
        env = "TIDEGATE_WAIT_FOR_CONFIG",
        hide_env_values = true,
        value_parser = config::read_duration,
        default_value = "0s"
    )]
    wait_for_config: Nanos,
    #[command(flatten)]
    settings: SettingArgs,
}

/// The flags and variables of all settings, made from their table.
struct SettingArgs(Vec<Given>);

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(|key| {
            let action = if key.is_list() {
                ArgAction::Append
            } else {
                ArgAction::Set
            };
            let default = match key.default {
                [] => String::new(),
                values => format!(" [default: {}]", values.join(",")),
            };
            Arg::new(key.name)
                .long(key.flag)
                .env(key.variable)
                // A variable may hold the store's password.
                .hide_env_values(true)
                .value_name(key.value)
                .action(action)
                .help(format!("{}{default}", key.help))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingArgs::augment_args(command)
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingArgs, clap::Error> {
        let given = KEYS.iter().filter_map(|key| {
            let mut values = matches.get_many::<String>(key.name)?.cloned();
            match matches.value_source(key.name) {
                Some(ValueSource::EnvVariable) => Given::by_variable(key, &values.next()?),
                _ => Some(Given::by_flag(key, values)),
            }
        });
        Ok(SettingArgs(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SettingArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command that `arguments` (the program's name first) ask for, and
/// answers how it ended.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let done = error.exit_code() == 0;
            // Where nobody reads the help, nobody misses it.
            let _closed = error.print();
            return if done { Exit::Done } else { Exit::Usage };
        }
    };
    match cli.command {
        Commands::Serve(args) => {
            let ServeArgs {
                config,
                wait_for_config,
                settings: SettingArgs(given),
            } = *args;
            warn_of_unknown_variables();
            let surroundings = surroundings::of_this_process();
            let mut origin = Origin::new(config, given, surroundings);
            match origin.load(wait_for_config) {
                Ok(config) => serve::serve(config, origin),
                Err(faults) => tell(&faults),
            }
        }
        Commands::Validate(args) => validate::validate(&args),
        Commands::Check(args) => check::check(&args),
        Commands::Rules(args) => fleet_command::rules(args),
        Commands::Simulate(args) => simulate::simulate(&args),
    }
}

/// Tells all faults, a line each.
pub(super) fn tell(faults: &[impl Display]) -> Exit {
    for fault in faults {
        eprintln!("tidegate: {fault}");
    }
    Exit::Usage
}

/// A variable that was probably meant for us and is not one of ours has no effect;
/// it is no error, because Kubernetes sets `TIDEGATE_PORT` and the like by itself.
fn warn_of_unknown_variables() {
    let names = || KEYS.iter().map(|key| key.variable);
    for (variable, _) in std::env::vars_os() {
        let Some(variable) = variable
            .to_str()
            .filter(|name| name.starts_with("TIDEGATE_"))
        else {
            continue;
        };
        if names().any(|name| name == variable) {
            continue;
        }
        if let Some(meant) = config::nearest(variable, names()) {
            eprintln!("tidegate: {variable} has no effect; did you mean {meant}?");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_flag_and_a_variable_of_its_name() {
        for key in KEYS.iter().filter(|key| key.name != "rules_files") {
            assert_eq!(key.flag, key.name.replace('_', "-"));
            let variable = format!("TIDEGATE_{}", key.name.to_ascii_uppercase());
            assert_eq!(key.variable, variable);
        }
    }

    #[test]
    fn help_tells_every_variable_and_no_value_of_one() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").unwrap();
        let help = serve.render_long_help().to_string();
        for key in KEYS {
            assert!(
                help.contains(&format!("[env: {}]", key.variable)),
                "{}",
                key.name
            );
        }
    }
}
