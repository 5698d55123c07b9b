//! Unpacking as gzip(1) does it: one member after the other, and zeros behind the last, which tapes
//! and block devices add.
//!
//! Must never: take a cut or damaged member for the end of the data.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use super::unreadable::Unreadable;

/// The first bytes of a member.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Unpacks all members of a gzip file.
pub struct GzipReader<R> {
    /// The member that is read; `None` between members, and at the end.
    member: Option<GzDecoder<Counted<R>>>,
    /// The bytes behind the last member, between members.
    packed: Option<Counted<R>>,
}

/// A reader that counts the bytes that are taken from it.
struct Counted<R> {
    inner: R,
    taken: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.taken += count as u64;
        self.inner.consume(count);
    }
}

impl<R: BufRead> GzipReader<R> {
    /// A reader of packed bytes that begin with a member.
    pub fn new(packed: R) -> Self {
        let packed = Counted { inner: packed, taken: 0 };
        Self { member: Some(GzDecoder::new(packed)), packed: None }
    }

    /// Begins the next member; returns false at the end of the data.
    fn next_member(&mut self) -> io::Result<bool> {
        let Some(mut packed) = self.packed.take() else { return Ok(false) };
        let more = skip_zeros(&mut packed).and_then(|more| {
            if more {
                refuse_unless_gzip(&mut packed)?;
            }
            Ok(more)
        });
        match more {
            Ok(true) => self.member = Some(GzDecoder::new(packed)),
            Ok(false) | Err(_) => self.packed = Some(packed),
        }
        more
    }
}

/// Refuses bytes that are not the beginning of a member: the members before them are whole, so they
/// do not show that something was cut.
fn refuse_unless_gzip<R: BufRead>(packed: &mut Counted<R>) -> io::Result<()> {
    let at = packed.taken;
    let bytes = packed.fill_buf()?;
    // A second byte that is not there yet is seen by the decoder.
    let seen = &bytes[..bytes.len().min(MAGIC.len())];
    if MAGIC.starts_with(seen) {
        return Ok(());
    }
    let reason = format!("something that is not gzip follows the packed data at byte {at}");
    Err(io::Error::new(io::ErrorKind::InvalidData, Unreadable(reason)))
}

/// Skips zeros; returns true if other bytes follow.
fn skip_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let (is_end, is_found) = (bytes.is_empty(), zeros < bytes.len());
        packed.consume(zeros);
        if is_end || is_found {
            return Ok(is_found);
        }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(member) = &mut self.member {
                let count = member.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
                self.packed = self.member.take().map(GzDecoder::into_inner);
            }
            if !self.next_member()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        // A small buffer, so that zeros and members are cut by it.
        GzipReader::new(BufReader::with_capacity(7, bytes)).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn members_follow_one_another_and_zeros_may_follow_the_last() {
        let (a, b) = (packed("a,b\n"), packed("1,2\n"));
        for zeros in [0, 1, 6, 7, 512] {
            let padding = vec![0; zeros];
            assert_eq!(unpacked(&[&a[..], &padding].concat()).unwrap(), "a,b\n", "{zeros}");
            assert_eq!(unpacked(&[&a[..], &b, &padding].concat()).unwrap(), "a,b\n1,2\n");
        }
    }

    #[test]
    fn what_is_no_gzip_behind_a_member_is_named_by_its_place() {
        let a = packed("a,b\n");
        for zeros in [0, 1, 9] {
            let error = unpacked(&[&a[..], &vec![0; zeros], b"text"].concat()).unwrap_err();
            let wanted = format!("follows the packed data at byte {}", a.len() + zeros);
            assert!(error.to_string().ends_with(&wanted), "{error}");
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_an_error() {
        let (a, b) = (packed("a,b\n"), packed("1,2\n"));
        for bytes in [
            a[..a.len() - 1].to_vec(),
            [&a[..], &b[..5]].concat(),
            [&a[..], b"rubbish"].concat(),
            [&a[..], &[0; 9], b"rubbish"].concat(),
        ] {
            assert!(unpacked(&bytes).is_err(), "{}", bytes.escape_ascii());
        }
        let mut damaged = a;
        let crc = damaged.len() - 8;
        damaged[crc] ^= 1;
        assert!(unpacked(&damaged).is_err());
    }
}
