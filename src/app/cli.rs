//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand,
};

use super::check::{self, CheckArgs};
use super::config::{self, Given, KEYS, Origin};
use super::exit::Exit;
use super::explain::{self, ExplainArgs};
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
  69  check: no answer, or the store is lost; explain: no answer;
      serve: an address cannot be listened on; rules: the store cannot be asked
  70  an internal error";

/// What editors are told of config files and rule files.
const SCHEMA: &str = include_str!("../../config/schema.json");

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
    /// Tell what becomes of a request, and why
    Explain(Box<ExplainArgs>),
    /// Put the fleet's rules into the store, fetch and compare them
    Rules(RulesArgs),
    /// Print the JSON Schema of config files and rule files, for editors
    Schema,
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

/// The command line. What should be a number or a duration may begin with a dash: it is
/// told what is wrong with it, rather than taken for a flag.
fn command() -> Command {
    let figures = ["NUMBER", "DURATION", "PERCENT", "EXPONENT"];
    let is_figure = |arg: &Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let named = |name: &str| figures.iter().any(|figure| name.starts_with(figure));
        names.iter().any(|name| named(name))
    };
    let lenient = |arg: Arg| {
        let may = is_figure(&arg);
        arg.allow_hyphen_values(may)
    };
    Cli::command().mut_subcommands(|command| command.mut_args(lenient))
}

/// Runs the command that `arguments` (the program's name first) ask for, and
/// answers how it ended.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let matches = command().try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
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
            let misspelt = misspelt(std::env::vars_os().map(|(name, _)| name));
            let surroundings = surroundings::of_this_process();
            let mut origin = Origin::new(config, given, surroundings);
            match origin.load(wait_for_config) {
                Ok(config) => serve::serve(config, origin, &misspelt),
                Err(faults) => {
                    tell(&misspelt);
                    tell(&faults)
                }
            }
        }
        Commands::Validate(args) => validate::validate(&args),
        Commands::Check(args) => check::check(&args),
        Commands::Explain(args) => explain::explain(&args),
        Commands::Rules(args) => fleet_command::rules(args),
        Commands::Schema => {
            // Who reads no further has had enough.
            let _closed = io::stdout().write_all(SCHEMA.as_bytes());
            Exit::Done
        }
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

/// What is said of variables that were probably meant for us and are none of ours: they
/// have no effect, which is no error, because Kubernetes sets `TIDEGATE_PORT` and the like by
/// itself.
fn misspelt(variables: impl Iterator<Item = OsString>) -> Vec<String> {
    let of_serve = ["TIDEGATE_CONFIG", "TIDEGATE_WAIT_FOR_CONFIG"];
    let known = || KEYS.iter().map(|key| key.variable).chain(of_serve);
    let word = |name: &'static str| name.strip_prefix(PREFIX).unwrap_or(name);
    let meant = |variable: OsString| {
        let variable = variable.to_str()?;
        let given = variable.strip_prefix(PREFIX)?;
        if known().any(|name| name == variable) {
            return None;
        }
        let meant = config::nearest(given, known().map(word))?;
        Some(format!(
            "{variable} has no effect; did you mean {PREFIX}{meant}?"
        ))
    };
    variables.filter_map(meant).collect()
}

/// What the names of all our variables begin with.
const PREFIX: &str = "TIDEGATE_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
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
    fn a_misspelt_variable_is_told_and_those_of_kubernetes_are_not() {
        let told = |name: &str| misspelt([OsString::from(name)].into_iter());
        assert_eq!(
            told("TIDEGATE_SYNC_INTERVALL"),
            ["TIDEGATE_SYNC_INTERVALL has no effect; did you mean TIDEGATE_SYNC_INTERVAL?"]
        );
        assert_eq!(
            told("TIDEGATE_CONFGI"),
            ["TIDEGATE_CONFGI has no effect; did you mean TIDEGATE_CONFIG?"]
        );
        for silent in [
            "TIDEGATE_SYNC_INTERVAL",
            "TIDEGATE_CONFIG",
            "TIDEGATE_PORT",
            "TIDEGATE_SERVICE_HOST",
            "TIDEGATE_SERVICE_PORT",
            "TIDEGATE_PORT_80_TCP_ADDR",
            "SYNC_INTERVALL",
        ] {
            assert_eq!(told(silent), <[&str; 0]>::default(), "{silent}");
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
