//! Many callers, one commit.

// Until the Writer is there nothing but tests uses these.
#![allow(dead_code, reason = "the Writer uses them")]

mod prometheus;
mod readers;
mod stats;

pub use self::readers::{OldestReader, Reader};
pub use self::stats::{Bucket, GroupSizes, Latency, WriterStats};
