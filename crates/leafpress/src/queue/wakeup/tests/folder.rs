//! The folder of the sockets, and what others may do to it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::message::{self, Message};
use super::super::socket::{OwnSocket, Sender, SocketFolder};
use super::{Ground, NO_LOOKS, Pace, WakeUps, Woken, names, patience, settle, until, wait_beside};
use crate::sync::lock;

fn message(queue: &str, jobs: u32) -> Message {
    Message { queue_hash: message::hash(queue), jobs }
}

/// Checks that `sending` wakes a waiter of `receiving`.
fn assert_wakes(sending: &WakeUps, receiving: &Arc<WakeUps>) {
    let waiting = wait_beside(receiving.waiter("a").unwrap(), None);
    sending.wake("a", 1);
    assert_eq!(waiting.join().unwrap(), Woken::Look);
}

#[test]
fn a_socket_is_there_while_a_thread_waits() {
    let ground = Ground::new();
    fs::set_permissions(ground.database(), Permissions::from_mode(0o660)).unwrap();
    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    assert!(!ground.sockets_folder().exists());
    let waiter = wake_ups.waiter("a").unwrap();
    let _second = wake_ups.waiter("b").unwrap();
    let _other = other.waiter("a").unwrap();
    let sockets = ground.sockets();
    assert_eq!(sockets.len(), 2, "{sockets:?}");
    for socket in &sockets {
        let metadata = fs::metadata(ground.sockets_folder().join(socket)).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
    }
    let folder = fs::metadata(ground.sockets_folder()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o770);
    drop(waiter);
    assert_eq!(ground.sockets(), sockets);
    other.close();
    assert_eq!(ground.sockets().len(), 1);
    wake_ups.close();
    assert!(!ground.sockets_folder().exists());
}

#[test]
fn writers_in_one_process_wake_each_other() {
    let ground = Ground::new();
    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    assert_wakes(&wake_ups, &other);
    assert_wakes(&other, &wake_ups);
}

#[test]
fn a_dead_socket_is_removed_and_the_folder_with_the_last() {
    let ground = Ground::new();
    fs::create_dir(ground.sockets_folder()).unwrap();
    for name in ["4711-00000000-0", "4711-00000000-1.new", "what is this"] {
        drop(UnixDatagram::bind(ground.sockets_folder().join(name)).unwrap());
    }
    assert_eq!(ground.sockets().len(), 3);
    ground.wake_ups().wake("a", 1);
    assert!(!ground.sockets_folder().exists());
}

#[test]
fn odd_files_are_left_alone_and_not_followed() {
    let ground = Ground::new();
    let sockets = ground.sockets_folder();
    fs::create_dir_all(sockets.join("folder")).unwrap();
    fs::write(sockets.join("file"), "text").unwrap();
    fs::write(sockets.join("x".repeat(200)), "").unwrap();
    let outside = UnixDatagram::bind(ground.folder.path().join("outside")).unwrap();
    outside.set_nonblocking(true).unwrap();
    symlink(ground.folder.path().join("outside"), sockets.join("link")).unwrap();
    symlink(ground.folder.path().join("nowhere"), sockets.join("dangling")).unwrap();
    let stream = UnixListener::bind(sockets.join("stream")).unwrap();
    stream.set_nonblocking(true).unwrap();
    let before = ground.sockets();

    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    assert_wakes(&wake_ups, &other);
    other.close();
    wake_ups.wake("a", 1);
    assert_eq!(ground.sockets(), before);
    assert!(outside.recv(&mut [0; 64]).is_err());
    assert!(stream.accept().is_err());
}

#[test]
fn a_folder_that_is_a_link_is_not_used() {
    let ground = Ground::new();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), ground.sockets_folder()).unwrap();
    // A socket that would be removed, if it were the folder of sockets.
    drop(UnixDatagram::bind(elsewhere.path().join("dead")).unwrap());
    // Without a socket it looks every 50 ms.
    let (wake_ups, other) = (ground.usual_wake_ups(), ground.wake_ups());
    assert_wakes(&other, &wake_ups);
    assert_eq!(names(elsewhere.path()), ["dead"]);
}

#[test]
fn paths_may_be_long() {
    let ground = Ground::new();
    let mut folder = ground.folder.path().to_owned();
    for _ in 0..4 {
        folder.push("a rather long name of a folder, \u{1f514} and odd too".repeat(2));
    }
    fs::create_dir_all(&folder).unwrap();
    let database = folder.join("app.db");
    fs::copy(ground.database(), &database).unwrap();
    let wake_ups = || WakeUps::with_pace(&database, None, ground.now_ms(), NO_LOOKS);
    let (wake_ups, other) = (wake_ups(), wake_ups());
    assert_wakes(&wake_ups, &other);
    if cfg!(target_os = "linux") {
        assert_eq!(names(&folder.join("app.db-wakeups")).len(), 1);
    }
    other.close();
    assert!(!folder.join("app.db-wakeups").exists());
}

#[test]
fn a_database_may_be_reached_by_a_link() {
    let ground = Ground::new();
    let link = ground.folder.path().join("link.db");
    symlink(ground.database(), &link).unwrap();
    let linked = WakeUps::with_pace(&link, None, ground.now_ms(), NO_LOOKS);
    assert_wakes(&linked, &ground.wake_ups());
}

#[test]
fn a_folder_that_is_removed_is_made_again() {
    let ground = Ground::new();
    let pace = Pace { look_every: Duration::from_millis(20), ..NO_LOOKS };
    let wake_ups = WakeUps::with_pace(&ground.database(), None, ground.now_ms(), pace);
    let mut waiter = wake_ups.waiter("a").unwrap();
    let before = ground.sockets();
    fs::remove_dir_all(ground.sockets_folder()).unwrap();
    until("there is another socket", || ground.sockets().len() == 1 && ground.sockets() != before);
    assert_eq!(waiter.wait(None, patience()), Woken::Look, "a wake-up of this time was lost");

    // The socket is made again as well if the folder is only put away, and another one is there.
    let before = ground.sockets();
    fs::rename(ground.sockets_folder(), ground.folder.path().join("away")).unwrap();
    fs::create_dir(ground.sockets_folder()).unwrap();
    until("there is another socket", || ground.sockets().len() == 1 && ground.sockets() != before);
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
    assert_eq!(names(&ground.folder.path().join("away")).len(), 0);
    wake_ups.close();
    assert!(!ground.sockets_folder().exists());
}

#[test]
fn garbage_does_no_harm() {
    let ground = Ground::new();
    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    let waiting = wait_beside(other.waiter("a").unwrap(), None);
    let socket = ground.sockets_folder().join(&ground.sockets()[0]);
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    let long = vec![0xa5; 20_000];
    for bytes in [&b""[..], b"x", &long, &message("b", u32::MAX).to_bytes(), &long[..20]] {
        // Slowly, so that the socket is never full: that would wake waiters of all queues.
        sender.send_to(bytes, &socket).unwrap();
        let heard = super::wakes(&other);
        until("it was heard", || super::wakes(&other) > heard || waiting.is_finished());
    }
    wake_ups.wake("a", 1);
    assert_eq!(waiting.join().unwrap(), Woken::Look);
}

#[test]
fn a_full_socket_says_so() {
    let ground = Ground::new();
    let place = SocketFolder::of(&ground.database()).unwrap();
    let socket = OwnSocket::open(&place).unwrap();
    let sender = Sender::new(SocketFolder::of(&ground.database()));
    let mut messages = Vec::new();
    sender.send(|| message("a", 2));
    assert!(!socket.drain(&mut messages));
    assert_eq!(messages, [message("a", 2)]);
    messages.clear();
    for _ in 0..10_000 {
        sender.send(|| message("a", 1));
    }
    sender.send(|| message("b", 1));
    assert!(socket.drain(&mut messages));
    assert!(messages[0].jobs > 1);
    // It is the listener's room that was full, not the sender's.
    sender.send(|| message("b", 3));
    messages.clear();
    assert!(!socket.drain(&mut messages));
    assert_eq!(messages, [message("b", 3)]);
}

/// A datagram that was lost may have been for any queue.
#[test]
fn who_got_no_datagram_because_the_socket_was_full_is_woken() {
    let ground = Ground::new();
    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    let waiting = wait_beside(other.waiter("b").unwrap(), None);
    {
        // Only the first datagrams are read meanwhile.
        let _held = lock(&other.shared.state);
        for _ in 0..10_000 {
            wake_ups.wake("a", 1);
        }
        wake_ups.wake("b", 1);
    }
    assert_eq!(waiting.join().unwrap(), Woken::Look);
}

#[test]
fn a_thread_that_has_stopped_listening_listens_again() {
    let ground = Ground::new();
    let (wake_ups, other) = (ground.wake_ups(), ground.wake_ups());
    drop(other.waiter("a").unwrap());
    until("it does not listen", || {
        wake_ups.wake("a", 1);
        lock(&other.shared.state).listener.as_ref().is_none_or(|listener| listener.is_deaf)
    });
    assert_wakes(&wake_ups, &other);
}

#[test]
fn the_folder_is_listed_only_when_it_has_changed() {
    let ground = Ground::new();
    let sender = Sender::new(SocketFolder::of(&ground.database()));
    sender.send(|| message("a", 1));
    assert_eq!(sender.listings(), 0, "there is no waiter");
    let first = OwnSocket::open(&SocketFolder::of(&ground.database()).unwrap()).unwrap();
    settle(&sender);
    let settled = sender.listings();
    for _ in 0..1000 {
        sender.send(|| message("a", 1));
    }
    assert_eq!(sender.listings(), settled);
    let second = OwnSocket::open(&SocketFolder::of(&ground.database()).unwrap()).unwrap();
    sender.send(|| message("b", 7));
    assert!(sender.listings() > settled);
    let mut messages = Vec::new();
    second.drain(&mut messages);
    assert_eq!(messages, [message("b", 7)]);
    drop((first, second));
    assert!(!ground.sockets_folder().exists());
}

/// A socket that comes right after a listing, within one step of the file
/// system's clock, gets wake-ups too.
#[test]
fn a_socket_gets_wake_ups_as_soon_as_it_is_there() {
    let ground = Ground::new();
    let place = SocketFolder::of(&ground.database()).unwrap();
    let sender = Sender::new(SocketFolder::of(&ground.database()));
    let _always = OwnSocket::open(&place).unwrap();
    for round in 0..300 {
        sender.send(|| message("a", 1));
        let socket = OwnSocket::open(&place).unwrap();
        sender.send(|| message("b", round));
        let mut messages = Vec::new();
        socket.drain(&mut messages);
        assert_eq!(messages, [message("b", round)]);
    }
}

#[test]
fn sockets_come_and_go_while_others_send_and_tidy_up() {
    let ground = Ground::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let sender = Sender::new(SocketFolder::of(&ground.database()));
                    sender.send(|| message("a", 1));
                    sender.send(|| message("a", 1));
                }
            });
        }
        let openers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let place = SocketFolder::of(&ground.database()).unwrap();
                    for _ in 0..500 {
                        drop(OwnSocket::open(&place)?);
                    }
                    Ok::<(), std::io::Error>(())
                })
            })
            .collect();
        let opened: Vec<_> = openers.into_iter().map(|it| it.join().unwrap()).collect();
        is_over.store(true, Ordering::SeqCst);
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    });
    until("the folder is gone", || {
        Sender::new(SocketFolder::of(&ground.database())).send(|| message("a", 1));
        !ground.sockets_folder().exists()
    });
}

#[test]
fn a_database_that_is_no_file_has_no_folder() {
    assert!(SocketFolder::of(Path::new("/nowhere/app.db")).is_none());
    let folder = tempfile::tempdir().unwrap();
    assert!(SocketFolder::of(folder.path()).is_none());
}
