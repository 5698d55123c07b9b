//! The message of one process to another: the bytes of a datagram.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 8 | `LPwake01`; what begins otherwise is no wake-up |
//! | 8 | 8 | FNV-1a hash of the queue's name (UTF-8), little endian |
//! | 16 | 4 | jobs, little endian |
//!
//! Stands between the sender, which writes them, and the wake-up thread, which
//! reads them. The name goes as a hash, so that any name fits: if two
//! names have the same hash, a waiter looks for a job that is not there. The hash is part of the
//! format: all versions of this crate must compute the same one.
//!
//! Must never: trust a datagram. Any process that may write the database may send anything; the
//! worst that a datagram can do is to make a waiter look.

/// Bytes of a message.
pub(super) const LENGTH: usize = 20;
const MAGIC: [u8; 8] = *b"LPwake01";

/// A wake-up: there are `jobs` more in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) queue_hash: u64,
    pub(super) jobs: u32,
}

impl Message {
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.queue_hash.to_le_bytes());
        bytes[16..].copy_from_slice(&self.jobs.to_le_bytes());
        bytes
    }

    /// `None` for whatever is no message.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (queue_hash, jobs) = rest.split_first_chunk::<8>()?;
        (*magic == MAGIC).then_some(Self {
            queue_hash: u64::from_le_bytes(*queue_hash),
            jobs: u32::from_le_bytes(jobs.try_into().ok()?),
        })
    }
}

/// FNV-1a, 64 bits: the same in every process and version.
pub(super) fn hash(queue: &str) -> u64 {
    queue.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_arrives() {
        let message = Message { queue_hash: hash("Briefe an\0\u{1f514}"), jobs: u32::MAX };
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
    }

    #[test]
    fn the_hash_is_the_same_in_every_version() {
        // From the authors' own list of test vectors.
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_is_no_message_is_none() {
        let bytes = Message { queue_hash: 1, jobs: 1 }.to_bytes();
        assert_eq!(Message::from_bytes(&[]), None);
        assert_eq!(Message::from_bytes(&bytes[..LENGTH - 1]), None);
        assert_eq!(Message::from_bytes(&[bytes.as_slice(), &[0]].concat()), None);
        assert_eq!(Message::from_bytes(&[0; LENGTH]), None);
    }
}
