//! Sends wake-ups to the sockets of other processes.
//!
//! Stands under [`WakeUps::wake`](super::super::WakeUps::wake), often in the thread
//! of the writer just after a commit, so each wake-up is one `stat` of the folder
//! and one datagram to each socket. The sockets are listed anew only when the
//! folder has changed since.
//!
//! 1. A listing is trusted for as long as the folder's time of change stays the
//!    same, if it was made [`TIME_STEP`] after that time was first seen. Until
//!    then the folder may change again without another time: file systems
//!    count in steps, of milliseconds, or of seconds where nanoseconds are 0.
//! 2. Each socket has a sending socket of its own, connected to it: a process
//!    that is stopped and reads nothing fills no buffer but its own.
//! 3. A socket that is full needs no more datagrams: its listener knows by the number
//!    of datagrams that it was full, and wakes a waiter of every queue.
//!
//! Must never: wait, open or remove a file that is no socket, or follow a link.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::place::{NAME_LENGTH_MAX, SocketFolder};
use crate::queue::wakeup::message::Message;
use crate::sync::lock;

/// Steps in which file systems count time are not larger: 1 to 10 ms on Linux.
const TIME_STEP: Duration = Duration::from_millis(100);
/// Such steps where a time has no nanoseconds, which old file systems do not store.
const TIME_STEP_COARSE: Duration = Duration::from_millis(2100);
/// Sockets that get wake-ups: each costs a file descriptor here, of which a process
/// may have no more than 1,024. Processes beyond that look once a second.
const SOCKETS_MAX: usize = 128;
/// Names that are read; another program may fill the folder.
const NAMES_MAX: usize = 4096;

/// Sender to the sockets of all other processes.
#[derive(Debug)]
pub(in crate::queue::wakeup) struct Sender {
    place: Option<SocketFolder>,
    sockets: Mutex<Sockets>,
}

#[derive(Debug, Default)]
struct Sockets {
    listing: Option<Listing>,
    /// By name; without a socket where nothing can be sent to it.
    by_name: BTreeMap<String, Option<UnixDatagram>>,
    /// Number of times that the folder was listed.
    #[cfg(test)]
    listings: u64,
}

/// When the sockets were listed.
#[derive(Debug)]
struct Listing {
    change: Change,
    /// When this change was first seen.
    first_seen: Instant,
    is_settled: bool,
}

/// A folder, and when it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    device: u64,
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Sender {
    pub(in crate::queue::wakeup) fn new(place: Option<SocketFolder>) -> Self {
        Self { place, sockets: Mutex::default() }
    }

    /// Sends a message to all sockets but this one's own.
    pub(in crate::queue::wakeup) fn send(&self, message: impl FnOnce() -> Message) {
        let Some(place) = &self.place else { return };
        let Ok(folder) = std::fs::symlink_metadata(&place.folder) else {
            // Without a folder there is no waiter.
            let mut sockets = lock(&self.sockets);
            (sockets.listing, sockets.by_name) = (None, BTreeMap::new());
            return;
        };
        let change = Change {
            device: folder.dev(),
            inode: folder.ino(),
            seconds: folder.mtime(),
            nanoseconds: folder.mtime_nsec(),
        };
        let mut sockets = lock(&self.sockets);
        if let Err(error) = sockets.refresh(place, change) {
            tracing::debug!(?place, %error, "wake-up: the sockets cannot be listed");
        }
        if !sockets.by_name.is_empty() {
            sockets.send_to_all(place, &message().to_bytes());
        }
    }

    /// Number of times that the folder was listed.
    #[cfg(test)]
    pub(in crate::queue::wakeup) fn listings(&self) -> u64 {
        lock(&self.sockets).listings
    }
}

impl Sockets {
    /// Lists the sockets anew, unless the last listing is still true.
    fn refresh(&mut self, place: &SocketFolder, change: Change) -> io::Result<()> {
        let now = Instant::now();
        let known = self.listing.take().filter(|listing| listing.change == change);
        if let Some(listing) = known.as_ref().filter(|listing| listing.is_settled) {
            self.listing = Some(Listing { ..*listing });
            return Ok(());
        }
        let first_seen = known.map_or(now, |listing| listing.first_seen);
        self.list(place)?;
        let step = if change.nanoseconds == 0 { TIME_STEP_COARSE } else { TIME_STEP };
        let is_settled = now.duration_since(first_seen) > step;
        self.listing = Some(Listing { change, first_seen, is_settled });
        Ok(())
    }

    fn list(&mut self, place: &SocketFolder) -> io::Result<()> {
        #[cfg(test)]
        {
            self.listings += 1;
        }
        let folder = place.open()?;
        let names = other_names(place, &folder)?;
        self.by_name.retain(|name, _| names.contains(name));
        let mut has_removed = false;
        for name in names {
            if self.by_name.get(&name).is_some_and(Option::is_some) {
                continue;
            }
            match connect(place, &folder, &name) {
                Ok(socket) => {
                    self.by_name.insert(name, Some(socket));
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::CONNREFUSED) => {
                    // Of a process that was killed.
                    let removed = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
                    tracing::debug!(name, ?removed, "wake-up: no process listens at this socket");
                    self.by_name.remove(&name);
                    has_removed = true;
                }
                Err(error) => {
                    tracing::debug!(name, %error, "wake-up: nothing can be sent to a socket");
                    self.by_name.insert(name, None);
                }
            }
        }
        if has_removed && self.by_name.is_empty() {
            place.remove_if_empty();
        }
        Ok(())
    }

    fn send_to_all(&mut self, place: &SocketFolder, bytes: &[u8]) {
        for (name, entry) in &mut self.by_name {
            let Some(socket) = entry else { continue };
            let Err(error) = socket.send(bytes) else { continue };
            let is_full = error.kind() == io::ErrorKind::WouldBlock
                || Errno::from_io_error(&error) == Some(Errno::NOBUFS);
            if is_full {
                continue;
            }
            // The socket is gone; the next listing of the folder drops its name.
            tracing::debug!(?place, name, %error, "wake-up: a socket did not get it");
            *entry = None;
            self.listing = None;
        }
    }
}

/// The names in the folder that sockets of others may have.
fn other_names(place: &SocketFolder, folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)?.take(NAMES_MAX) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let is_own = name.starts_with(&place.own_prefix);
        if name.len() <= NAME_LENGTH_MAX && !name.starts_with('.') && !is_own {
            names.push(name.to_owned());
        }
        if names.len() == SOCKETS_MAX {
            break;
        }
    }
    Ok(names)
}

/// Connects to a name in the folder, which must be a socket.
fn connect(place: &SocketFolder, folder: &OwnedFd, name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    connect_to(&socket, place, folder, name)?;
    Ok(socket)
}

/// Connects by the open file itself, so that no process can put a link in its place meanwhile.
#[cfg(target_os = "linux")]
fn connect_to(
    socket: &UnixDatagram,
    place: &SocketFolder,
    folder: &OwnedFd,
    name: &str,
) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    refuse_what_is_no_socket(rustix::fs::fstat(&file)?.st_mode)?;
    match socket.connect(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            socket.connect(place.folder.join(name))
        }
        other => other,
    }
}

#[cfg(not(target_os = "linux"))]
fn connect_to(
    socket: &UnixDatagram,
    place: &SocketFolder,
    folder: &OwnedFd,
    name: &str,
) -> io::Result<()> {
    let stat = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
    refuse_what_is_no_socket(stat.st_mode)?;
    socket.connect(place.folder.join(name))
}

fn refuse_what_is_no_socket(mode: rustix::fs::RawMode) -> io::Result<()> {
    if FileType::from_raw_mode(mode) == FileType::Socket {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_change_is_not_trusted_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("app.db");
        std::fs::write(&database, "").unwrap();
        std::fs::create_dir(folder.path().join("app.db-wakeups")).unwrap();
        let place = SocketFolder::of(&database).unwrap();
        let change = Change { device: 1, inode: 2, seconds: 3, nanoseconds: 4 };
        let mut sockets = Sockets::default();
        sockets.refresh(&place, change).unwrap();
        assert!(!sockets.listing.as_ref().unwrap().is_settled);
        sockets.refresh(&place, change).unwrap();
        assert_eq!(sockets.listings, 2);
        // Another folder, or the same after another change.
        for change in [Change { inode: 5, ..change }, Change { nanoseconds: 0, ..change }] {
            sockets.refresh(&place, change).unwrap();
            assert!(!sockets.listing.as_ref().unwrap().is_settled);
        }
        assert_eq!(sockets.listings, 4);
    }
}
