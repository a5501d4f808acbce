//! The sync.
