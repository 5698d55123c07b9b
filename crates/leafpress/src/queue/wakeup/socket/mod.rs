//! The sockets of processes: Unix datagram sockets in a folder beside the database.
//!
//! ```text
//! app.db
//! app.db-wakeups/        made by the first that waits, removed by the last
//!   4711-9f3c2a10-0      one socket of each WakeUps with a waiter:
//!   4712-04be77d3-0      process, a random number, the number of its socket
//! ```
//!
//! Stands under the wake-up thread, which has an [`OwnSocket`] of its own, and under
//! [`WakeUps::wake`](super::WakeUps::wake), whose [`Sender`] knows all others. Two
//! writers of one process on one database have a socket each.
//!
//! Invariants:
//! 1. A socket has its name only once every process that may write the database can send to it: it
//!    is made under another name (`….new`) and renamed.
//! 2. Names are never used again, so that what is known by one name stays true.
//! 3. Other processes remove a socket only if no process listens at it, and the folder only when it
//!    is empty. A process that loses its socket by this at its birth sees that it cannot be
//!    renamed, and makes another.
//! 4. Nothing but sockets is touched, and no link is followed: neither the
//!    folder itself nor what is in it may be one.
//!
//! A path to a socket must not be longer than about 100 bytes. On Linux it goes
//! through `/proc/self/fd`, and so the database's path may have any length;
//! elsewhere, if it is too long, the folder is `/tmp/leafpress-wakeups-` and a
//! number made of the database's device and inode, the same for all processes.
//!
//! A process that may write the database may send wake-ups and wait for them: the folder and the
//! sockets have its permissions to write, and its owner and group as far as this process may give
//! them, as SQLite does with its own files beside a database.
//!
//! Must never: wait, or fail a push. A failure here costs a look a second later.

mod own;
mod place;
mod sender;

pub(super) use own::OwnSocket;
pub(super) use place::SocketFolder;
pub(super) use sender::Sender;
