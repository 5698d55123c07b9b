//! The Writer's numbers in Prometheus' text exposition format, version 0.0.4.
//!
//! Serve it as `text/plain; version=0.0.4`. How the text is written is said in
//! [`crate::prometheus`].
//!
//! Must never: give a metric another name or unit than it had.

use super::shared::SharingStats;
use super::stats::WriterStats;
use crate::checkpoint::CheckpointStats;
use crate::prometheus::{Exposition, Shown};
use crate::times::in_microseconds;

const PREFIX: &str = "leafpress_writer";

/// Labels that are ours on some metric; a caller's of the same name is
/// renamed, as Prometheus itself does it.
const OWN_LABELS: [&str; 2] = ["le", "reader"];

impl WriterStats {
    /// These numbers for Prometheus, each with `labels` (name, value).
    ///
    /// Values may be any text. In names, what the format does not allow becomes
    /// `_`; `le` and `reader`, which are used here, become `exported_le` and
    /// `exported_reader`; of two equal names the first counts.
    ///
    /// ```
    /// let stats = leafpress::writer::WriterStats::default();
    /// let text = stats.to_prometheus(&[("database", "app.db")]);
    /// assert!(text.contains("leafpress_writer_commits_total{database=\"app.db\"} 0\n"));
    /// ```
    pub fn to_prometheus(&self, labels: &[(&str, &str)]) -> String {
        let mut text = Exposition::new(PREFIX, &OWN_LABELS, labels);
        self.add_counters(&mut text);
        self.add_gauges(&mut text);
        if let Some(sharing) = &self.sharing {
            add_sharing(sharing, &mut text);
        }
        if let Some(checkpoints) = &self.checkpoints {
            add_checkpoints(checkpoints, &mut text);
        }
        let size = &self.group_size;
        let buckets = size.buckets.iter().map(|it| (it.at_most, it.count));
        text.histogram(
            "group_size",
            "Calls in a committed group.",
            &[],
            Shown { buckets, count: size.count, sum: size.sum, unit: 1.0 },
        );
        for (name, help, latency) in [
            ("wait_seconds", "From the submit of a call to the begin of its group.", &self.wait),
            ("commit_seconds", "The COMMIT of a group alone, with its sync.", &self.commit),
            ("call_seconds", "From the submit of a call to its answer.", &self.total),
        ] {
            let buckets = latency.buckets.iter().map(|it| (in_microseconds(it.at_most), it.count));
            let (count, sum) = (latency.count, in_microseconds(latency.sum));
            text.histogram(name, help, &[], Shown { buckets, count, sum, unit: 1e6 });
        }
        text.into_text()
    }

    fn add_counters(&self, text: &mut Exposition) {
        text.plain(
            "counter",
            &[
                ("commits_total", "Groups that were committed.", self.commits),
                ("calls_total", "Calls in committed groups, failed ones too.", self.calls),
                (
                    "calls_failed_total",
                    "Calls that were answered with an error.",
                    self.calls_failed,
                ),
                (
                    "calls_cancelled_total",
                    "Calls that were taken back before they began.",
                    self.calls_cancelled,
                ),
                (
                    "queue_full_total",
                    "Calls that were sent away as the queue was full.",
                    self.queue_full,
                ),
                (
                    "groups_rolled_back_total",
                    "Groups that were lost as a whole.",
                    self.groups_rolled_back,
                ),
                (
                    "calls_replayed_total",
                    "Calls that ran again because their group was lost.",
                    self.calls_replayed,
                ),
                (
                    "busy_waits_total",
                    "Times that another connection was writing when a group should begin.",
                    self.busy_waits,
                ),
            ],
        );
    }

    fn add_gauges(&self, text: &mut Exposition) {
        text.plain(
            "gauge",
            &[
                ("queue_depth", "Calls that wait in the queue.", self.queue_depth),
                (
                    "queue_depth_max",
                    "The most calls that ever waited at once.",
                    self.queue_depth_max,
                ),
                ("wal_bytes", "Size of the write-ahead log after the last commit.", self.wal_bytes),
                ("wal_bytes_max", "The largest the write-ahead log has been.", self.wal_bytes_max),
            ],
        );
        text.describe("open_seconds", "For how long the Writer has been open.", "gauge");
        text.sample("open_seconds", "", &[], self.open_for.as_secs_f64());
        if let Some(reader) = &self.oldest_reader {
            let label = [("reader", reader.name.as_str())];
            let name = "oldest_reader_seconds";
            text.describe(name, "For how long the reader to look at first has been out.", "gauge");
            text.sample(name, "", &label, reader.open_for.as_secs_f64());
            let name = "oldest_reader_in_transaction";
            text.describe(name, "1 if it was in a read transaction when last used.", "gauge");
            text.sample(name, "", &label, u8::from(reader.in_transaction));
        }
    }
}

fn add_sharing(sharing: &SharingStats, text: &mut Exposition) {
    text.plain(
        "gauge",
        &[
            (
                "sharing",
                "1 if the writer shares the database with those of other processes.",
                u64::from(sharing.why_not.is_none()),
            ),
            ("sharing_members", "Writers that share the database now.", sharing.members),
            (
                "sharing_makes_checkpoints",
                "1 if this writer makes the checkpoints for all of them.",
                u64::from(sharing.makes_checkpoints),
            ),
        ],
    );
    text.plain(
        "counter",
        &[
            ("sharing_own_syncs_total", "Syncs that this writer made.", sharing.own_syncs),
            (
                "sharing_syncs_of_others_total",
                "Commits that were answered after the sync of another process.",
                sharing.syncs_of_others,
            ),
            (
                "sharing_lonely_syncs_total",
                "Syncs beside those of others, after a wait that was too long.",
                sharing.lonely_syncs,
            ),
            (
                "sharing_waits_in_line_total",
                "Transactions that waited for those of other processes.",
                sharing.waits_in_line,
            ),
        ],
    );
}

fn add_checkpoints(checkpoints: &CheckpointStats, text: &mut Exposition) {
    text.plain(
        "counter",
        &[
            ("checkpoint_passes_total", "Checkpoints beside the writer.", checkpoints.passes),
            (
                "checkpoint_catch_ups_total",
                "Times that the writer was held so that the log could rewind.",
                checkpoints.catch_ups,
            ),
            (
                "checkpoint_catch_ups_given_up_total",
                "Times that it was held in vain, because of readers or other processes.",
                checkpoints.catch_ups_given_up,
            ),
            (
                "checkpoint_truncations_total",
                "Times that the log was cut to zero bytes.",
                checkpoints.truncations,
            ),
            (
                "checkpoint_errors_total",
                "Checkpoints that ended with an error; each is tried again.",
                checkpoints.errors,
            ),
        ],
    );
    let name = "checkpoint_held_seconds_max";
    text.describe(name, "The longest that the writer was held for a checkpoint.", "gauge");
    text.sample(name, "", &[], in_microseconds(checkpoints.writer_held_max) as f64 / 1e6);
    if let Some(stuck) = &checkpoints.stuck_reader {
        let label = [("reader", stuck.name.as_deref().unwrap_or("another process"))];
        let name = "stuck_reader_seconds";
        text.describe(name, "For how long a reader has kept the log from shrinking.", "gauge");
        text.sample(name, "", &label, stuck.stuck_for.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
