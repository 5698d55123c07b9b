//! Sockets on systems without Unix sockets: no wake-up reaches another process, and the wake-up
//! thread looks at the database every 50 ms instead.
//!
//! Stands in for `socket/mod.rs`, with the same names.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use super::message::Message;

/// There is none.
#[derive(Debug, Clone)]
pub(super) struct SocketFolder(Infallible);

impl SocketFolder {
    pub(super) fn of(_: &Path) -> Option<Self> {
        None
    }
}

/// There is none.
#[derive(Debug)]
pub(super) struct OwnSocket(Infallible);

impl OwnSocket {
    pub(super) fn open(place: &SocketFolder) -> io::Result<Self> {
        match place.0 {}
    }

    pub(super) fn is_there(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn drain(&self, _: &mut Vec<Message>) -> bool {
        match self.0 {}
    }
}

/// Sends to no other process.
pub(super) struct Sender;

impl Sender {
    pub(super) fn new(_: Option<SocketFolder>) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "as on Unix")]
    pub(super) fn send(&self, _: impl FnOnce() -> Message) {}
}
