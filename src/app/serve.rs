use super::config::Config;
use super::exit::Exit;

pub(super) fn serve(_config: &Config) -> Exit {
    Exit::Done
}
