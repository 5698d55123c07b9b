//! Reads locks as Linux writes them: `/proc/locks`, and the `lock:` lines of
//! `/proc/PID/fdinfo/N`.
//!
//! Stands under [`super::processes`]. Knows nothing but that text:
//!
//! ```text
//! 3: POSIX  ADVISORY  WRITE 4711 fe:00:1234 1073741826 1073742335
//! 3: -> POSIX  ADVISORY  WRITE 4712 fe:00:1234 1073741825 1073741825
//! 4: OFDLCK ADVISORY  READ  -1 fe:00:1235 128 EOF
//! number, "->" if it waits, kind, mode, type, process, major:minor:inode, first and last byte
//! ```
//!
//! The process of a lock of an open file description is -1 there: it belongs to
//! no process. The `fdinfo` of the descriptor tells which processes have it.
//!
//! Must never: fail on a line that it does not understand, which is left out.

use serde::Serialize;

/// The two kinds of byte range locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LockStyle {
    /// A lock of a process, as SQLite takes it unless it is told otherwise.
    Posix,
    /// A lock of an open file description, which a fork shares.
    Ofd,
}

/// One line: a range of bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLine {
    pub style: LockStyle,
    /// The line is about a process that waits for the lock.
    pub waits: bool,
    pub is_write: bool,
    /// `None` where the system names no process.
    pub pid: Option<u32>,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    pub inode: u64,
    pub first_byte: u64,
    /// The last byte, itself locked.
    pub last_byte: u64,
}

/// The byte range locks in `/proc/locks`, in its order.
pub fn parse_table(text: &str) -> Vec<LockLine> {
    text.lines().filter_map(parse_line).collect()
}

/// The byte range locks in a file of `/proc/PID/fdinfo`.
pub fn parse_fdinfo(text: &str) -> Vec<LockLine> {
    text.lines().filter_map(|line| parse_line(line.strip_prefix("lock:")?)).collect()
}

/// The inode that a file of `/proc/PID/fdinfo` names, as kernels since 5.14 do.
pub fn inode_in_fdinfo(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse().ok())
}

fn parse_line(line: &str) -> Option<LockLine> {
    let mut words = line.split_whitespace().peekable();
    words.next()?.strip_suffix(':')?;
    let waits = words.next_if_eq(&"->").is_some();
    let style = match words.next()? {
        "POSIX" => LockStyle::Posix,
        "OFDLCK" => LockStyle::Ofd,
        _ => return None,
    };
    let _mode = words.next()?;
    let is_write = match words.next()? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let pid: i64 = words.next()?.parse().ok()?;
    let mut place = words.next()?.splitn(3, ':');
    let mut device_number = || u32::from_str_radix(place.next()?, 16).ok();
    let device = (device_number()?, device_number()?);
    let inode = place.next()?.parse().ok()?;
    let first_byte = words.next()?.parse().ok()?;
    let last_byte = match words.next()? {
        "EOF" => u64::MAX,
        number => number.parse().ok()?,
    };
    Some(LockLine {
        style,
        waits,
        is_write,
        pid: u32::try_from(pid).ok().filter(|&pid| pid > 0),
        device,
        inode,
        first_byte,
        last_byte,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 1073741826 1073742335
1: -> POSIX  ADVISORY  READ 4712 fe:00:1234 1073741826 1073742335
2: OFDLCK ADVISORY  READ -1 08:1f:77 128 128
3: FLOCK  ADVISORY  WRITE 99 fe:00:1234 0 EOF
4: POSIX  ADVISORY  WRITE 5 fe:00:8 0 EOF
5: LEASE  ACTIVE    READ  5 fe:00:8 0 EOF
nonsense
6: POSIX  ADVISORY  WRITE 5 <none>:0 0 EOF
";

    #[test]
    fn the_table_of_locks_gives_its_ranges_and_nothing_else() {
        let lines = parse_table(TABLE);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].pid, Some(4711));
        assert_eq!((lines[0].device, lines[0].inode), ((0xfe, 0), 1234));
        assert_eq!((lines[0].first_byte, lines[0].last_byte), (1_073_741_826, 1_073_742_335));
        assert!(lines[0].is_write && !lines[0].waits);
        assert!(!lines[1].is_write && lines[1].waits);
        assert_eq!((lines[2].style, lines[2].pid), (LockStyle::Ofd, None));
        assert_eq!(lines[2].device, (8, 0x1f));
        assert_eq!(lines[3].last_byte, u64::MAX);
    }

    #[test]
    fn the_facts_of_a_descriptor_name_its_locks_and_its_inode() {
        let text = "pos:\t0\nflags:\t0100002\nmnt_id:\t27\nino:\t1235\n\
                    lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:1235 120 120\n";
        assert_eq!(inode_in_fdinfo(text), Some(1235));
        let locks = parse_fdinfo(text);
        assert_eq!(locks.len(), 1);
        assert_eq!((locks[0].first_byte, locks[0].last_byte), (120, 120));
        assert_eq!(parse_fdinfo("1: POSIX ADVISORY WRITE 1 fe:00:1 0 EOF\n"), []);
        assert_eq!(inode_in_fdinfo("pos:\t0\n"), None);
    }

    #[test]
    fn numbers_that_are_none_or_too_large_leave_the_line_out() {
        for line in [
            "1: POSIX ADVISORY WRITE x fe:00:1 0 EOF",
            "1: POSIX ADVISORY WRITE 1 fe:00:99999999999999999999999 0 EOF",
            "1: POSIX ADVISORY WRITE 1 fe:00 0 EOF",
            "1: POSIX ADVISORY WRITE 1 fe:00:1 -1 EOF",
            "1: POSIX ADVISORY UNLCK 1 fe:00:1 0 EOF",
            "1: POSIX ADVISORY WRITE 1 fe:00:1 0",
            "1 POSIX ADVISORY WRITE 1 fe:00:1 0 EOF",
            "1: ->",
        ] {
            assert_eq!(parse_table(line), [], "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[ -~\t\n]{0,200}", cut in 0..TABLE.len()) {
            let _ = parse_table(&text);
            let _ = parse_fdinfo(&text);
            let _ = inode_in_fdinfo(&text);
            let _ = parse_table(&TABLE[..cut]);
        }
    }
}
