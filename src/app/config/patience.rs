//! Waiting for files that are about to appear.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::fault::Fault;
use crate::units::Nanos;

/// How long to wait for files, all in all: counted in looks, since only the clock
/// of the decisions may be read.
pub(super) struct Patience {
    whole: Nanos,
    looks: u64,
}

impl Patience {
    const BETWEEN_LOOKS: Nanos = Nanos::from_millis(50);

    pub(super) fn of(whole: Nanos) -> Patience {
        Patience {
            whole,
            looks: whole.get().div_ceil(Self::BETWEEN_LOOKS.get()),
        }
    }

    /// Waits until `path` is there. Without any patience, a missing file is for
    /// the reader to complain of.
    pub(super) fn until_there(&mut self, path: &Path) -> Result<(), Fault> {
        while !path.exists() {
            if self.looks == 0 {
                return if self.whole.is_zero() {
                    Ok(())
                } else {
                    Err(Fault::NotThere {
                        path: path.to_owned(),
                        waited: self.whole,
                    })
                };
            }
            self.looks -= 1;
            thread::sleep(Duration::from(Self::BETWEEN_LOOKS));
        }
        Ok(())
    }
}
