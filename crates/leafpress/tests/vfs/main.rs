//! VFSes written in Rust, judged by SQLite on top of them.
#![allow(clippy::unwrap_used, reason = "a test says no by a panic")]

mod platform;
