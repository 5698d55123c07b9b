//! Reads `/proc/self/mountinfo`: what is mounted where, and how.
//!
//! Stands under [`super::file_system`]. Knows nothing but that text:
//!
//! ```text
//! 36 35 98:0 /root /mnt/point rw,noatime master:1 - ext4 /dev/vda1 rw,errors=continue
//! id parent major:minor root where options [more] - type source options of the file system
//! ```
//!
//! Blanks, tabs, line feeds, `#` and backslashes in a name stand there as
//! `\` and three octal digits.
//!
//! Must never: fail on a line that it does not understand. A system that says
//! nothing useful is one of which we know nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// One line: one file system at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount, as `statx` gives it.
    pub id: u64,
    /// The device's number, as `stat` has it.
    pub device: (u32, u32),
    /// Folder at which it is mounted.
    pub place: PathBuf,
    /// The type, with its subtype: `ext4`, `fuse.sshfs`.
    pub kind: String,
    /// Source of the mount: a device, a server's folder, or a word.
    pub source: String,
    /// The options of the mount and those of the file system, each once.
    pub options: Vec<String>,
}

/// Every line that can be understood, in the order in which they were mounted.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let id = number(fields.next()?)?;
    let _parent = fields.next()?;
    let mut device = fields.next()?.splitn(2, |&byte| byte == b':');
    let device = (number(device.next()?)? as u32, number(device.next()?)? as u32);
    let _root = fields.next()?;
    let place = path(unescape(fields.next()?));
    let mut options = split_options(fields.next()?);
    // The optional fields end with a single minus.
    fields.by_ref().find(|field| *field == b"-")?;
    let kind = text(fields.next()?);
    let source = text(fields.next().unwrap_or_default());
    for option in split_options(fields.next().unwrap_or_default()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount { id, device, place, kind, source, options })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

fn split_options(field: &[u8]) -> Vec<String> {
    field.split(|&byte| byte == b',').filter(|it| !it.is_empty()).map(text).collect()
}

/// Puts back the characters that would have broken a line apart.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'\\').then(|| after.get(..3).and_then(octal)).flatten();
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(unix)]
fn path(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from(String::from_utf8_lossy(&bytes).into_owned()).into()
}

/// The mount that holds `path`: by its number where the kernel tells one, else
/// the last of those whose mount point is the longest above `path`.
pub fn holding<'a>(mounts: &'a [Mount], id: Option<u64>, path: &Path) -> Option<&'a Mount> {
    let by_id = id.and_then(|id| mounts.iter().find(|mount| mount.id == id));
    by_id.or_else(|| {
        let above = mounts.iter().filter(|mount| path.starts_with(&mount.place));
        above.max_by_key(|mount| mount.place.components().count())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /mnt/two\\040words\\134x ro,nosuid shared:7 master:2 - tmpfs none ro,size=4k
29 27 0:31 / /home/ada/far rw - fuse.sshfs ada@far:/home/ada rw,user_id=1000
nonsense
30 27 0:32 / /mnt rw - nfs4 server:/export rw,vers=4.2
31 27 0:33 / /mnt rw - xfs /dev/vdb rw
";

    #[test]
    fn a_line_gives_all_that_it_says() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!(mounts[0].device, (254, 0));
        assert_eq!(mounts[0].options, ["rw", "relatime", "discard"]);
        assert_eq!(mounts[1].place, Path::new("/mnt/two words\\x"));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].source.as_str()), ("tmpfs", "none"));
        assert_eq!(mounts[1].options, ["ro", "nosuid", "size=4k"]);
        assert_eq!(mounts[2].kind, "fuse.sshfs");
    }

    #[test]
    fn the_deepest_and_last_mount_holds_a_path_and_a_number_beats_it() {
        let mounts = parse(TEXT);
        let kind = |id, path: &str| holding(&mounts, id, Path::new(path)).unwrap().kind.clone();
        assert_eq!(kind(None, "/home/ada/db"), "ext4");
        assert_eq!(kind(None, "/home/ada/far/db"), "fuse.sshfs");
        assert_eq!(kind(None, "/mnt/db"), "xfs");
        assert_eq!(kind(Some(30), "/mnt/db"), "nfs4");
        assert_eq!(kind(Some(99), "/mnt/two words\\x/db"), "tmpfs");
        assert_eq!(kind(None, "/mntx"), "ext4");
        assert_eq!(holding(&[], None, Path::new("/")), None);
    }

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        assert_eq!(unescape(b"a\\012b\\9\\77"), b"a\nb\\9\\77");
        assert_eq!(unescape(b"\\400\\040\\"), b"\\400 \\");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let with_dash = [&b"1 2 3:4 / "[..], &bytes, b" - "].concat();
            let _ = parse(&bytes);
            let _ = parse(&with_dash);
        }

        #[test]
        fn a_name_survives_being_escaped(name in "[ -~\t\n]{1,40}") {
            let escaped: String = name.bytes().map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}"),
                _ => char::from(byte).to_string(),
            }).collect();
            let line = format!("1 2 3:4 / /{escaped} rw - ext4 /dev/{escaped} rw");
            let mounts = parse(line.as_bytes());
            prop_assert_eq!(&mounts[0].place, &PathBuf::from(format!("/{name}")));
            prop_assert_eq!(&mounts[0].source, &format!("/dev/{name}"));
        }
    }
}
