use super::{Outcome, fixed_window, sliding_window};
use crate::units::{Algorithm, Cost, Quota, Timestamp, WindowId};

/// The counts of one window and of the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    id: WindowId,
    current: u64,
    previous: u64,
}

impl WindowState {
    /// The state of the window `id`, in which `current` was used, after one in which
    /// `previous` was.
    #[inline]
    pub const fn new(id: WindowId, current: u64, previous: u64) -> WindowState {
        WindowState {
            id,
            current,
            previous,
        }
    }

    /// The window that is being counted.
    pub const fn id(&self) -> WindowId {
        self.id
    }

    /// What was used in that window.
    pub const fn current(&self) -> u64 {
        self.current
    }

    /// What was used in the window before it.
    pub const fn previous(&self) -> u64 {
        self.previous
    }

    /// Goes on to the window of `now`.
    ///
    /// A window that begins at most a period ahead of `now` stays: its time stands
    /// still. One further ahead was counted by a wrong clock: its count is taken
    /// over into the window of `now`.
    #[inline(always)]
    pub fn roll(&mut self, quota: &Quota, now: Timestamp) {
        // Spares a division per check.
        if !quota.windows().holds(self.id, now) {
            self.go_to(quota.windows().at(now));
        }
    }

    #[cold]
    fn go_to(&mut self, id: WindowId) {
        if id > self.id {
            self.previous = if id == self.id.next() {
                self.current
            } else {
                0
            };
            self.current = 0;
        } else if id.next() == self.id && (self.current | self.previous) != 0 {
            return;
        } else {
            self.previous = 0;
        }
        self.id = id;
    }

    /// Takes `cost` as [`State::take`](super::State::take) does, under a quota that
    /// is no ban.
    #[inline(always)]
    pub fn take(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        match quota.algorithm() {
            Algorithm::FixedWindow => fixed_window::take(self, quota, cost, now),
            _ => sliding_window::take(self, quota, cost, now),
        }
    }

    /// The count of `window` becomes at least `count`. Only this window and the
    /// one before it are counted: others are ignored.
    pub fn raise(&mut self, window: WindowId, count: u64) {
        if let Some(own) = self.count_of(window) {
            *own = count.max(*own);
        }
    }

    /// The count of `window` becomes `count`. Only this window and the one before it
    /// are counted: others are ignored.
    pub fn set(&mut self, window: WindowId, count: u64) {
        if let Some(own) = self.count_of(window) {
            *own = count;
        }
    }

    /// See [`State::charge`](super::State::charge).
    pub fn charge(&mut self, quota: &Quota, cost: Cost, now: Timestamp) {
        self.roll(quota, now);
        self.add(cost);
    }

    /// Counts `cost` in the window of `moment`, whether or not there is room; answers
    /// whether that window still counts. To be called for the window of now, or after
    /// [`WindowState::roll`] for an earlier one.
    pub fn charge_at(&mut self, quota: &Quota, cost: Cost, moment: Timestamp) -> bool {
        let window = quota.windows().at(moment);
        if window != self.id && quota.algorithm() == Algorithm::FixedWindow {
            return false;
        }
        let Some(count) = self.count_of(window) else {
            return false;
        };
        *count = count.saturating_add(cost.get());
        true
    }

    /// Takes `cost` off the count of the window of `now`, as far as there is so much, and
    /// answers how much that was.
    pub fn refund(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Cost {
        self.roll(quota, now);
        let refunded = cost.min(Cost::new(self.current));
        self.current -= refunded.get();
        refunded
    }

    /// This state gone on to the window of `now`, to be stored with what is taken.
    ///
    /// A state that came back from a wrong clock is stored at once: left ahead, it
    /// would be taken to be of every later `now` again, and waiting would not help.
    #[inline]
    pub(super) fn enter(&mut self, quota: &Quota, now: Timestamp) -> WindowState {
        let next = self.rolled(quota, now);
        if next.id < self.id {
            *self = next;
        }
        next
    }

    /// Counts `cost` in the current window.
    pub(super) fn add(&mut self, cost: Cost) {
        self.current = self.current.saturating_add(cost.get());
    }

    /// See [`State::give_back`](super::State::give_back).
    pub fn give_back(&mut self, quota: &Quota, cost: Cost, taken_at: Timestamp) {
        if let Some(count) = self.count_of(quota.windows().at(taken_at)) {
            *count = count.saturating_sub(cost.get());
        }
    }

    /// See [`State::moment`](super::State::moment).
    #[inline(always)]
    pub fn moment(&self, quota: &Quota, now: Timestamp) -> Timestamp {
        let windows = quota.windows();
        if windows.start(self.id) <= now {
            return now;
        }
        windows.start(self.rolled(quota, now).id).max(now)
    }

    /// See [`State::is_fresh`](super::State::is_fresh).
    pub fn is_fresh(&self, quota: &Quota, now: Timestamp) -> bool {
        let state = self.rolled(quota, now);
        let forgets_previous = quota.algorithm() == Algorithm::FixedWindow;
        state.current == 0 && (state.previous == 0 || forgets_previous)
    }

    #[inline]
    fn rolled(mut self, quota: &Quota, now: Timestamp) -> WindowState {
        self.roll(quota, now);
        self
    }

    fn count_of(&mut self, window: WindowId) -> Option<&mut u64> {
        if window == self.id {
            Some(&mut self.current)
        } else if window.next() == self.id {
            Some(&mut self.previous)
        } else {
            None
        }
    }
}
