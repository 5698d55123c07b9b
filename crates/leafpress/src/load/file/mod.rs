//! The file of a load: its numbered pages. They are written by position.
//!
//! Must never: give the file its name; `new_file` does, after SQLite found the file sound.

pub mod output;
pub mod pages;
mod write_queue;
