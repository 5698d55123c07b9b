//! What each transaction of a script costs the disk, and what defeats one-page commits.
//!
//! | file | does |
//! |---|---|
//! | `script.rs` | SQL text to statements, each with its place |
//! | `copy.rs` | a copy to run them on, gone afterwards |

mod copy;
mod script;

pub use script::{Script, Statement};
