//! Hears that something happened in a directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Watches directories rather than files: a file that is replaced by another of its name
/// is no longer the one that was watched.
pub(super) struct Watch {
    /// `None` if the system has no more of them to give.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    changed: Arc<Notify>,
}

impl Watch {
    /// Watches nothing yet. What it cannot watch, whoever looks now and then still sees.
    pub(super) fn new() -> Watch {
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // A fault may hide a change.
            if event.map_or(true, |event| is_a_change(event.kind)) {
                tell.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "files cannot be watched: changes are seen some seconds later");
        });
        Watch {
            watcher: watcher.ok(),
            watched: BTreeSet::new(),
            changed,
        }
    }

    /// Watches these directories and no others. Those that were watched before are watched
    /// anew: there may be others of their names by now.
    pub(super) fn only(&mut self, directories: Vec<PathBuf>) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let wanted: BTreeSet<PathBuf> = directories.into_iter().collect();
        for left in self.watched.difference(&wanted) {
            // It may be gone, and its watch with it.
            let _gone = watcher.unwatch(left);
        }
        let mut watch = |directory: &Path| {
            let watched = watcher.watch(directory, RecursiveMode::NonRecursive);
            if let Err(error) = &watched {
                tracing::debug!(%error, directory = %directory.display(), "not watched");
            }
            watched.is_ok()
        };
        self.watched = wanted.into_iter().filter(|wanted| watch(wanted)).collect();
    }

    /// Done when something has happened since the last time.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Reading changes nothing, and we read.
fn is_a_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
