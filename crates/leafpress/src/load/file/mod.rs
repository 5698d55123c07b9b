//! The file of a load: its pages written by position, and its name given at the end.
//!
//! Must never: give a file its final name before SQLite found it sound.

pub mod disk;
pub mod output;
pub mod pages;
pub mod publish;
