//! Numbers of the checkpointer's work, for people and monitoring.
//!
//! The checkpointer's thread fills them after each step, and any thread may read them. Must never
//! be needed for a decision: those are the policy's.

use std::time::Duration;

use serde::Serialize;

use super::gate::{Held, Look};
use super::policy::{Outcome, Step};

/// Bytes before each page in a WAL.
pub(super) const FRAME_HEADER_BYTES: u64 = 24;
const WAL_HEADER_BYTES: u64 = 32;

/// Numbers of the checkpointer's work and state of the WAL; all counts since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// The database's page size in bytes.
    pub page_size: u32,
    /// Frames in the WAL now, a page each.
    pub wal_frames: u32,
    /// Bytes of these frames. The file may be larger: a rewound WAL keeps its length until the
    /// writing pauses.
    pub wal_bytes: u64,
    /// The longest that the WAL was seen, in bytes.
    pub wal_bytes_max: u64,
    /// Frames that are copied into the database.
    pub copied_frames: u32,
    /// Passes beside the writer.
    pub passes: u64,
    /// The longest pass.
    #[serde(rename = "pass_us_max", serialize_with = "crate::times::whole_microseconds")]
    pub pass_max: Duration,
    /// Times that the writer was held and the WAL could rewind after it.
    pub catch_ups: u64,
    /// Number of times that the writer was held, but readers or other processes kept the log from
    /// rewinding.
    pub catch_ups_given_up: u64,
    /// Times that the WAL file was cut to zero bytes.
    pub truncations: u64,
    /// Times that another process or connection was just making a checkpoint.
    pub busy: u64,
    /// Steps that ended with an error. Each is tried again, and nothing is lost; but for
    /// a failed sync, after which the writer stops.
    pub errors: u64,
    /// The last of these errors.
    pub last_error: Option<String>,
    /// Groups of the writer that waited for a catch-up or a truncation.
    pub writer_held: u64,
    /// The longest such wait.
    #[serde(rename = "writer_held_us_max", serialize_with = "crate::times::whole_microseconds")]
    pub writer_held_max: Duration,
    /// All such waits together.
    #[serde(rename = "writer_held_us_total", serialize_with = "crate::times::whole_microseconds")]
    pub writer_held_total: Duration,
    /// Waits that ended because they had lasted as long as the limits allow.
    pub writer_waits_broken_off: u64,
    /// The reader that keeps the WAL from shrinking, once that lasts.
    pub stuck_reader: Option<StuckReader>,
}

/// A WAL that cannot shrink, and the likely cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StuckReader {
    /// The oldest reader of this process; `None`: it must be another process, or a
    /// connection that was opened elsewhere.
    pub name: Option<String>,
    /// Time for which the WAL has been kept from shrinking; as JSON in seconds, `stuck_for_s`.
    #[serde(rename = "stuck_for_s", serialize_with = "crate::times::seconds")]
    pub stuck_for: Duration,
}

impl CheckpointStats {
    pub(super) fn record(
        &mut self,
        step: Step,
        outcome: Outcome,
        frames: u32,
        copied: u32,
        took: Duration,
    ) {
        self.set_frames(frames);
        self.copied_frames = copied;
        let Outcome::Done { busy, frames } = outcome else { return };
        if busy && frames.is_none() {
            self.busy += 1;
        }
        let whole = !busy && frames.is_some_and(|(frames, copied)| copied >= frames);
        match step {
            Step::Sleep { .. } => {}
            Step::Pass => {
                self.passes += 1;
                self.pass_max = self.pass_max.max(took);
            }
            Step::CatchUp { cut } => {
                self.catch_ups += u64::from(whole);
                self.truncations += u64::from(whole && cut);
                self.catch_ups_given_up += u64::from(!whole);
            }
            Step::Truncate => self.truncations += u64::from(whole),
        }
    }

    pub(super) fn note_error(&mut self, error: &rusqlite::Error) {
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }

    /// Adds the numbers that the gate knows better.
    pub(super) fn add_gate(&mut self, look: &Look, held: Held) {
        if look.commits > 0 {
            self.set_frames(look.frames);
            self.copied_frames = self.copied_frames.min(look.frames);
        }
        self.writer_held = held.groups;
        self.writer_held_max = held.longest;
        self.writer_held_total = held.total;
        self.writer_waits_broken_off = held.broken_off;
    }

    fn set_frames(&mut self, frames: u32) {
        self.wal_frames = frames;
        self.wal_bytes = wal_bytes(frames, self.page_size);
        self.wal_bytes_max = self.wal_bytes_max.max(self.wal_bytes);
    }
}

/// The length of a WAL of this number of frames.
fn wal_bytes(frames: u32, page_size: u32) -> u64 {
    if frames == 0 {
        return 0;
    }
    WAL_HEADER_BYTES + u64::from(frames) * (u64::from(page_size) + FRAME_HEADER_BYTES)
}
