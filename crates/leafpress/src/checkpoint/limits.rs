//! The limits of the checkpointer, and what they are in frames.
//!
//! Must never: set a limit without the failure that it prevents.

use std::sync::Arc;
use std::time::Duration;

use super::gate::{Gate, NEVER};
use super::policy::Thresholds;
use super::stats::FRAME_HEADER_BYTES;

/// Limits of the checkpointer. Each names the failure that it prevents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointLimits {
    /// A pass each time the WAL has grown by this many frames (one frame is one page).
    /// Fewer: more syncs, which compete with the writer's own. More: the disk gets
    /// its writes in larger lumps, and readers' lookups in the WAL take longer.
    pub slice_frames: u32,
    /// The WAL does not outgrow this, plus one group, unless a reader holds an old
    /// snapshot. Without a bound a WAL fills the disk and slows each reader.
    pub wal_bytes_max: u64,
    /// From here on a catch-up is prepared and made. The distance to `wal_bytes_max`
    /// is for what the writer adds meanwhile; used up, the writer waits for the passes too. Where a
    /// pass takes 10 ms, it is three quarters of `wal_bytes_max` at least: each catch-up holds all
    /// callers for three syncs.
    pub catch_up_bytes: u64,
    /// A WAL of this length is copied whole when the writing pauses for `pause_before_pass`, so
    /// that it rewinds without holding the writer. A smaller one is left: each rewind costs the
    /// next commit the sync of a header.
    pub pause_bytes: u64,
    /// Time without a commit that is a pause.
    pub pause_before_pass: Duration,
    /// Time without a commit after which the WAL file is cut to zero bytes. If it is shorter, a
    /// writer with rare commits pays for a new WAL each time.
    pub idle_before_truncate: Duration,
    /// Time after which a reader that keeps the WAL from shrinking is reported by name.
    pub stuck_reader_after: Duration,
    /// Longest time that the writer waits for readers of old snapshots. Syncs of the disk come on
    /// top. Longer stalls commits; much shorter, and readers of that length never let the WAL
    /// rewind.
    pub catch_up_wait_max: Duration,
    /// Longest time that the writer waits at a closed gate, whatever the checkpointer does: no
    /// failure of it or its disk stops the writing for longer.
    pub gate_wait_max: Duration,
    /// Longest wait for readers as it closes; after it the rest stays in the WAL.
    pub stop_wait_max: Duration,
}

impl Default for CheckpointLimits {
    fn default() -> Self {
        Self {
            slice_frames: 1_000,
            wal_bytes_max: 64 << 20,
            catch_up_bytes: 8 << 20,
            pause_bytes: 4 << 20,
            pause_before_pass: Duration::from_millis(20),
            idle_before_truncate: Duration::from_secs(2),
            stuck_reader_after: Duration::from_secs(10),
            catch_up_wait_max: Duration::from_millis(15),
            gate_wait_max: Duration::from_secs(1),
            stop_wait_max: Duration::from_millis(500),
        }
    }
}

impl CheckpointLimits {
    /// A gate at which writers wait as these limits say.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::new(Gate::new(self.gate_wait_max))
    }

    pub(super) fn thresholds(&self, page_size: u32) -> Thresholds {
        let frame_bytes = u64::from(page_size) + FRAME_HEADER_BYTES;
        // One frame less than NEVER, so that an absurd limit is still a number of frames.
        let frames = |bytes: u64| (bytes / frame_bytes).clamp(1, u64::from(NEVER - 1)) as u32;
        let bound_frames = frames(self.wal_bytes_max);
        let catch_up_frames = frames(self.catch_up_bytes).min(bound_frames);
        Thresholds {
            slice_frames: self.slice_frames.max(1),
            bound_frames,
            catch_up_frames,
            pause_frames: frames(self.pause_bytes).min(catch_up_frames),
            pause: self.pause_before_pass,
            idle: self.idle_before_truncate.max(self.pause_before_pass),
            stays_after: self.catch_up_wait_max,
            stuck_after: self.stuck_reader_after,
        }
    }
}
