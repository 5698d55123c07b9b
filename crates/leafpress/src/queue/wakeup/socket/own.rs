//! The socket of this process, to which others send their wake-ups.
//!
//! Stands under the wake-up thread, which makes it before any waiter looks for a job, and drops it
//! when there is no waiter any more. See the folder's invariants.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::AtFlags;

use super::place::SocketFolder;
use crate::queue::wakeup::message::{LENGTH, Message};
use crate::vfs::{FileIdentity, locks};

/// Attempts to make a socket in a folder that others remove meanwhile.
const ATTEMPTS: u32 = 16;
/// Before the third attempt; the later ones wait longer, by the square.
const PAUSE: Duration = Duration::from_micros(30);
/// Number of datagrams from which on there may have been no room for another. No system has less
/// room by default: Linux has it for 11, others for 4 KB.
const FULL_FROM: usize = 4;
/// Datagrams that are read before waiters are woken for them.
const DRAIN_MAX: usize = 1024;

/// A socket in the folder of sockets; removed when dropped.
#[derive(Debug)]
pub(in crate::queue::wakeup) struct OwnSocket {
    socket: UnixDatagram,
    place: SocketFolder,
    folder: OwnedFd,
    name: String,
    /// Device and inode of the folder, when it was made.
    folder_id: FileIdentity,
    /// Datagrams at once that may mean that it was full.
    full_from: usize,
}

impl OwnSocket {
    /// Makes the socket. When it returns, others can send to it.
    ///
    /// # Errors
    /// When the folder cannot be made or written, is no folder, or the file
    /// system knows no sockets. There may be an empty folder then.
    pub(in crate::queue::wakeup) fn open(place: &SocketFolder) -> io::Result<Self> {
        for attempt in 0..ATTEMPTS {
            match Self::open_once(place) {
                // The folder or the socket was removed meanwhile. Who is at it
                // may have to be let finish: the pauses are 37 ms at most.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    thread::sleep(PAUSE * attempt * attempt);
                }
                other => return other,
            }
        }
        Self::open_once(place)
    }

    fn open_once(place: &SocketFolder) -> io::Result<Self> {
        let folder = place.make()?;
        let name = place.new_name();
        let newborn = format!("{name}.new");
        let socket = UnixDatagram::bind(place.address(&folder, &newborn))?;
        socket.set_nonblocking(true)?;
        let named = place
            .share(&folder, &newborn)
            .and_then(|()| Ok(rustix::fs::renameat(&folder, &newborn, &folder, &name)?));
        if let Err(error) = named {
            let _ = rustix::fs::unlinkat(&folder, &newborn, AtFlags::empty());
            return Err(error);
        }
        let stat = rustix::fs::fstat(&folder)?;
        let folder_id = FileIdentity::from(&stat);
        let place = place.clone();
        Ok(Self { socket, place, folder, name, folder_id, full_from: full_from() })
    }

    /// The socket, on which the wake-up thread waits.
    pub(in crate::queue::wakeup) fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Returns true if others still find it.
    pub(in crate::queue::wakeup) fn is_there(&self) -> bool {
        let of_the_folder = std::fs::symlink_metadata(&self.place.folder);
        of_the_folder.is_ok_and(|it| FileIdentity::from(&it) == self.folder_id)
            && rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Reads what has arrived, one message for each queue; whether the socket
    /// may have been full, and others therefore not heard.
    pub(in crate::queue::wakeup) fn drain(&self, messages: &mut Vec<Message>) -> bool {
        // One byte more, to tell a longer datagram, which the system cuts.
        let mut bytes = [0; LENGTH + 1];
        let mut arrived = 0;
        while arrived < DRAIN_MAX {
            let Ok(length) = self.socket.recv(&mut bytes) else { break };
            arrived += 1;
            let Some(message) = Message::from_bytes(&bytes[..length]) else { continue };
            let known = messages.iter_mut().find(|it| it.queue_hash == message.queue_hash);
            match known {
                Some(known) => known.jobs = known.jobs.saturating_add(message.jobs),
                None => messages.push(message),
            }
        }
        arrived >= self.full_from
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        self.place.remove_if_empty();
    }
}

/// Linux has room for one datagram more than this setting says.
fn full_from() -> usize {
    let setting = locks::read_to_string(Path::new("/proc/sys/net/unix/max_dgram_qlen"));
    let room = setting.ok().and_then(|it| it.trim().parse::<usize>().ok());
    room.map_or(FULL_FROM, |room| FULL_FROM.min(room + 1))
}
