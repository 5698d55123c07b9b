//! The crash simulator. It compares what was acknowledged with what is there after a power cut
//! at any moment.
//!
//! ```text
//! workload ──► recorder (a Vfs) ──► log ──► disk (walks the log) ──► image ─┐
//!    └─► history: the content after each transaction                        │
//!                             memory VFS ◄──────────────────────────────────┘
//!                                 │ opened by unmodified SQLite; its recovery is recorded and
//!                                 ▼ cut short as well
//!                               check: integrity, content, promise ──► tally, failures
//! ```
//!
//! A failure prints the seed, the run, the point of the log and the image's
//! number; `LEAFPRESS_CRASH_SEED` repeats it.

mod check;
mod disk;
mod history;
mod image;
mod life;
mod log;
mod machine;
mod memory_vfs;
pub mod queue_history;
mod random;
mod recorder;
mod script;
mod simulate;
mod simulated_disk;
mod survey;
pub mod workload;
pub mod workload_atomic;
pub mod workload_queue;
pub mod workload_writer;

pub use check::{Finding, Promise, Tally};
pub use disk::Disk;
pub use history::{Digest, History};
pub use image::Image;
pub use life::{Life, Mortal};
pub use log::{Event, FileId, Log, Mark, Recording, Snapshot};
pub use machine::OurDisk;
pub use memory_vfs::{MEMORY_FOLDER, MemoryVfs};
pub use random::Random;
pub use recorder::{Recorder, shared_recorder};
pub use simulate::{Effort, FAILURES_MAX, Failure, Outcome, ReadContent, Run, Simulator};
pub use simulated_disk::{DiskCounts, DiskMode, SimulatedDisk};
pub use survey::Budget;
