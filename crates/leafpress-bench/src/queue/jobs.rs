//! The payload of a job: a text with its number, so that every job can be told apart, and
//! the sums of what was pushed and what was claimed compared.
//!
//! Must never: depend on the tool that keeps the queue.

/// Client and number of a job in one, as each client numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobNumber(pub(crate) u64);

/// Jobs of one client are fewer.
const CLIENT_JOBS_MAX: u64 = 1 << 40;

/// Client that pushed the jobs that wait beforehand.
pub(super) const FILLER: u32 = 1 << 20;

/// Bytes of a payload, which are as many in every job.
pub(crate) const PAYLOAD_BYTES: usize = PREFIX.len() + DIGITS;

const PREFIX: &[u8; 9] = b"bench job";
const DIGITS: usize = 20;

impl JobNumber {
    /// The job of this client with this number of its own.
    pub(crate) fn of(client: u32, n: u64) -> Self {
        Self(u64::from(client) * CLIENT_JOBS_MAX + n)
    }

    /// Its payload: "bench job00000000000000000012".
    pub(crate) fn payload(self) -> Vec<u8> {
        let mut payload = vec![b'0'; PAYLOAD_BYTES];
        payload[..PREFIX.len()].copy_from_slice(PREFIX);
        let mut rest = self.0;
        for digit in payload[PREFIX.len()..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        payload
    }

    /// The job with this payload; `None` if it is no payload of ours.
    pub(crate) fn from_payload(payload: &[u8]) -> Option<Self> {
        let digits = payload.strip_prefix(PREFIX)?;
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok().map(Self)
    }
}

/// Jobs, and the sum of their numbers: equal for two sets of jobs only if they are the
/// same, or differ in a way that no lost or doubled job makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: u64,
    sum: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, job: JobNumber) {
        self.jobs += 1;
        self.sum = self.sum.wrapping_add(job.0);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs, sum {:x}", self.jobs, self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_job() {
        for job in [JobNumber::of(0, 0), JobNumber::of(63, 1_234_567), JobNumber(u64::MAX)] {
            let payload = job.payload();
            assert_eq!(payload.len(), PAYLOAD_BYTES);
            assert_eq!(JobNumber::from_payload(&payload), Some(job));
        }
        assert_eq!(JobNumber(12).payload(), b"bench job00000000000000000012");
        for wrong in [&b"bench job"[..], b"", b"bench job0000000000000000001x", b"x"] {
            assert_eq!(JobNumber::from_payload(wrong), None);
        }
    }

    #[test]
    fn a_lost_and_a_doubled_job_show() {
        let tally = |numbers: &[u64]| {
            let mut tally = Tally::default();
            for number in numbers {
                tally.add(JobNumber(*number));
            }
            tally
        };
        assert_eq!(tally(&[1, 2, 3]), tally(&[3, 1, 2]));
        assert_ne!(tally(&[1, 2, 3]), tally(&[1, 2]));
        assert_ne!(tally(&[1, 2, 3]), tally(&[1, 2, 2]));
    }
}
