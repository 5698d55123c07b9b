//! Rungs: each in a process of its own. A rung is one piece of work by one rival.
//!
//! | file | is |
//! |---|---|
//! | `result` | the figures of a run; below every family |
//! | `described` | the trait behind which a rung says and does everything |
//! | `request` | what a rung's process is asked to do, and its command |
//! | `kind` | the enum of all kinds, and the one `match` over them; above every family |
//! | `process` | both sides of a rung's process |

pub(crate) mod described;
pub(crate) mod kind;
pub(crate) mod process;
pub(crate) mod request;
pub(crate) mod result;

pub use self::process::run_rung_line;
pub use self::request::{RUNG_FLAG, start_by};
