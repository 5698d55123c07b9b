//! The queue's numbers in Prometheus' text exposition format.
//!
//! Serve it as `text/plain; version=0.0.4`. How the text is written is said in
//! [`crate::prometheus`]. Rates and quantiles are left out: Prometheus makes
//! them of the counters and histograms, for any time.
//!
//! Must never: give a metric another name or unit than it had.

use super::{Events, QueueStats, Times, whole_milliseconds};
use crate::prometheus::{Exposition, Shown};

const PREFIX: &str = "leafpress_queue";

/// Labels that are ours; a caller's of the same name is renamed.
const OWN_LABELS: [&str; 3] = ["le", "queue", "state"];

impl QueueStats {
    /// These numbers for Prometheus, each with the queue's name as `queue`, and
    /// with `labels` (name, value).
    ///
    /// Values may be any text. In names, what the format does not allow becomes
    /// `_`; `le`, `queue` and `state`, which are used here, become `exported_le` and
    /// so on; of two equal names the first counts.
    ///
    /// ```
    /// let stats = leafpress::queue::QueueStats::default();
    /// let text = stats.to_prometheus(&[("database", "app.db")]);
    /// assert!(text.contains("leafpress_queue_pushed_total{database=\"app.db\",queue=\"\"} 0\n"));
    /// ```
    pub fn to_prometheus(&self, labels: &[(&str, &str)]) -> String {
        let mut text = Exposition::new(PREFIX, &OWN_LABELS, labels);
        let queue = [("queue", self.queue.as_str())];
        self.add_jobs(&mut text);
        let optional = [
            (
                "oldest_ready_seconds",
                "For how long the oldest ready job could have been claimed.",
                self.oldest_ready,
            ),
            (
                "oldest_lease_seconds",
                "How long ago the claim was that is out for the longest.",
                self.oldest_lease,
            ),
        ];
        for (name, help, value) in optional {
            text.describe(name, help, "gauge");
            text.sample(name, "", &queue, value.unwrap_or_default().as_secs_f64());
        }
        for (name, help, value) in [
            ("groups_blocked", "Ordering groups in which jobs are blocked.", self.groups_blocked),
            ("paused", "1 if the queue gives no jobs.", u64::from(self.is_paused)),
        ] {
            text.describe(name, help, "gauge");
            text.sample(name, "", &queue, value);
        }
        add_totals(&self.totals, &queue, &mut text);
        for (name, help, times) in [
            ("wait_seconds", "From the time that a job was due to its claim.", &self.totals_wait),
            ("run_seconds", "From the claim of a job to its ack.", &self.totals_run),
        ] {
            text.histogram(name, help, &queue, shown(times));
        }
        text.into_text()
    }

    fn add_jobs(&self, text: &mut Exposition) {
        text.describe("jobs", "Jobs that the queue holds, by state.", "gauge");
        for (state, count) in self.jobs.named() {
            text.sample("jobs", "", &[("queue", &self.queue), ("state", state)], count);
        }
    }
}

fn add_totals(totals: &Events<u64>, queue: &[(&str, &str)], text: &mut Exposition) {
    let help = |name| match name {
        "pushed" => "Jobs that were pushed.",
        "duplicates" => "Pushes that made no job, since their unique key was held.",
        "claimed" => "Claims.",
        "acked" => "Acks.",
        "retried" => "Attempts that failed and left the job to be tried again.",
        "lease_expired" => "Leases that came to an end without an answer.",
        "released" => "Claims that were given back untried.",
        "dead" => "Jobs that became dead letters.",
        _ => "Jobs whose time was over before they were claimed.",
    };
    for (event, count) in totals.named() {
        let name = format!("{event}_total");
        text.describe(&name, help(event), "counter");
        text.sample(&name, "", queue, count);
    }
}

fn shown(times: &Times) -> Shown<impl Iterator<Item = (u64, u64)>> {
    let buckets = times.buckets.iter().map(|it| (whole_milliseconds(it.at_most), it.count));
    Shown { buckets, count: times.count, sum: whole_milliseconds(times.sum), unit: 1e3 }
}
