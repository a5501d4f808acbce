use std::time::Duration;

use tokio::time::Interval;

use crate::server::patient::{TICKS, ticks};

/// Notices commands that do not end and connections that say nothing, by a slow tick
/// rather than by a clock reading at every command.
pub(super) struct Watch {
    pub(super) ticks: Interval,
    /// How many ticks of silence are the end.
    idle_ticks: u32,
    /// How many commands had been answered at the last tick.
    commands: u64,
    /// How many ticks in a row have seen the same command unfinished, or silence.
    unfinished: u32,
    silent: u32,
}

/// What is left for the peer.
pub(super) enum Patience {
    Left,
    Idle,
    Lost,
}

impl Watch {
    pub(super) fn new(request: Duration, idle: Duration) -> Watch {
        let ticks = ticks(request);
        let idle_ticks = idle.as_nanos().div_ceil(ticks.period().as_nanos());
        Watch {
            ticks,
            idle_ticks: u32::try_from(idle_ticks).unwrap_or(u32::MAX),
            commands: 0,
            unfinished: 0,
            silent: 0,
        }
    }

    /// What is left for a peer of which so many `commands` are answered, and of whose next
    /// one `input` is there, at this tick.
    pub(super) fn tick(&mut self, commands: u64, input: &[u8]) -> Patience {
        if commands != self.commands {
            self.commands = commands;
            (self.unfinished, self.silent) = (0, 0);
        }
        if input.is_empty() {
            self.unfinished = 0;
            self.silent = self.silent.saturating_add(1);
            // The first tick may come just after the last command.
            if self.silent > self.idle_ticks {
                Patience::Lost
            } else {
                Patience::Idle
            }
        } else {
            self.unfinished += 1;
            if self.unfinished > TICKS {
                Patience::Lost
            } else {
                Patience::Left
            }
        }
    }
}
