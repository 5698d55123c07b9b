//! Events of jobs, as numbers of each: counts, or rates.
//!
//! Must never: change a name, which stands in databases and in dashboards.

use serde::{Deserialize, Serialize};

/// A number for each kind of event of a job: how often it happened (`Events<u64>`), or how often in
/// a second (`Events<f64>`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Events<N> {
    /// Jobs that were pushed.
    pub pushed: N,
    /// Pushes that made no job, since their unique key was held.
    pub duplicates: N,
    /// Claims.
    pub claimed: N,
    /// Jobs that were acked.
    pub acked: N,
    /// Attempts that failed and left the job to be tried again.
    pub retried: N,
    /// Leases that ended without an answer.
    pub lease_expired: N,
    /// Claims that were given back and do not count as attempts.
    pub released: N,
    /// Jobs that became dead letters, for any reason.
    pub dead: N,
    /// Dead jobs that expired before they were claimed.
    pub expired: N,
}

impl<N: Copy> Events<N> {
    /// Names and numbers, in the order above.
    pub fn named(&self) -> [(&'static str, N); 9] {
        [
            ("pushed", self.pushed),
            ("duplicates", self.duplicates),
            ("claimed", self.claimed),
            ("acked", self.acked),
            ("retried", self.retried),
            ("lease_expired", self.lease_expired),
            ("released", self.released),
            ("dead", self.dead),
            ("expired", self.expired),
        ]
    }

    /// Joins each number with the other's.
    pub(super) fn zip<M: Copy, R>(&self, other: &Events<M>, join: impl Fn(N, M) -> R) -> Events<R> {
        Events {
            pushed: join(self.pushed, other.pushed),
            duplicates: join(self.duplicates, other.duplicates),
            claimed: join(self.claimed, other.claimed),
            acked: join(self.acked, other.acked),
            retried: join(self.retried, other.retried),
            lease_expired: join(self.lease_expired, other.lease_expired),
            released: join(self.released, other.released),
            dead: join(self.dead, other.dead),
            expired: join(self.expired, other.expired),
        }
    }

    /// Changes each number.
    pub(super) fn map<R>(&self, change: impl Fn(N) -> R) -> Events<R> {
        self.zip(self, |number, _| change(number))
    }
}
