//! The counters.
