//! The token of a lease, and the ways to lose it. The queue and the errors share these words.
//!
//! Must never: know a queue.

use std::fmt;

use serde::Serialize;

/// The token that a claim is answered with: the job, and the number of the claim. Written as
/// `17.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The job.
    pub job: i64,
    /// Number of the claim among the claims of this job, from 1.
    pub claim: u32,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.claim)
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The reason why a token is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseLost {
    /// The lease has ended. The job was not claimed again so far.
    Expired,
    /// The lease has ended, and the job was claimed again.
    ClaimedAgain,
    /// The job is done, dead or removed.
    Settled,
    /// The job was given back with this token.
    GivenBack,
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease has ended",
            Self::ClaimedAgain => "its lease had ended, and it was claimed again",
            Self::Settled => "it is done, dead or removed",
            Self::GivenBack => "it was given back already",
        })
    }
}
