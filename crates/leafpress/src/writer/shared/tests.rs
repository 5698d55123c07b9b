//! Members of one process, without a database: the line and the rounds, nonsense in the page, members
//! that do not move, syncs that fail.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::log_tests::eventually;
use super::{NotJoined, NotSynced, Sharing, SharingStats};
use crate::writer::busy::BusyClock;

/// A wait takes a second, and more only on a machine with much else to do.
const HANG: Duration = Duration::from_secs(60);
const NO_MEMBER: usize = 100;

fn members<const N: usize>() -> (tempfile::TempDir, [Arc<Sharing>; N]) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("a.db");
    fs::write(&database, "").unwrap();
    let members = [(); N].map(|()| Arc::new(Sharing::join(&database).unwrap()));
    (folder, members)
}

fn ticket(member: &Sharing) -> u64 {
    member.page.tickets()[member.membership.slot()].load(Acquire)
}

/// A commit of this member; the syncs that it made.
fn commit(member: &Sharing) -> u32 {
    let mut syncs = 0;
    let durable = member.make_durable(|| {
        syncs += 1;
        Ok(())
    });
    durable.unwrap();
    syncs
}

/// Waits in the line, but not for ever.
#[track_caller]
fn line_up(member: &Sharing) {
    let until = Instant::now() + HANG;
    member.line_up(|| Instant::now() < until);
    assert!(Instant::now() < until, "it waits for ever");
}

fn failed() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
        None,
    )
}

#[test]
fn each_member_in_the_line_gets_its_turn() {
    let (_folder, [holder, rest @ ..]) = members::<5>();
    // The lock that SQLite would give.
    let is_locked = Arc::new(AtomicBool::new(true));
    holder.begun();
    let (say, hear) = channel();
    let mut threads = Vec::new();
    for (number, member) in rest.into_iter().enumerate() {
        let (say, is_locked, of_thread) =
            (say.clone(), Arc::clone(&is_locked), Arc::clone(&member));
        threads.push(std::thread::spawn(move || {
            of_thread.line_up(|| true);
            while is_locked.compare_exchange(false, true, AcqRel, Acquire).is_err() {
                of_thread.wait_at_lock(Duration::from_millis(1));
            }
            of_thread.begun();
            say.send(number).unwrap();
            of_thread.ending();
            is_locked.store(false, Release);
            of_thread.leave_line();
        }));
        eventually("it takes a ticket", || ticket(&member) != 0);
    }
    holder.ending();
    is_locked.store(false, Release);
    holder.leave_line();
    for thread in threads {
        thread.join().unwrap();
    }
    // On a slow machine one may be passed by; the model has the order.
    let mut turns: Vec<_> = hear.try_iter().collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 1, 2, 3]);
}

#[test]
fn a_turn_is_kept_over_a_rollback_until_it_is_given_back() {
    let (_folder, [ours, other]) = members();
    let slot = ours.membership.slot();
    let clock = BusyClock::new(HANG, Arc::default(), Some(Arc::clone(&ours)));
    clock.line_up();
    clock.begun();
    other.wait_at_lock(Duration::ZERO);
    clock.keep_turn();
    // The other one waits, and has a ticket that ours would have to wait for.
    clock.line_up();
    assert_eq!((ours.holder(), ours.stats().waits_in_line), (Some(slot), 0));
    clock.begun();
    clock.give_turn_back();
    assert_eq!(ours.holder(), Some(slot), "a transaction that has begun has the turn");
    clock.keep_turn();
    clock.give_turn_back();
    assert_eq!((ours.holder(), ticket(&other) != 0), (None, true));
}

#[test]
fn a_wait_in_the_line_ends_when_the_caller_says_so() {
    let (_folder, [holder, first, other]) = members();
    holder.begun();
    first.wait_at_lock(Duration::ZERO);
    let asked = AtomicU64::new(0);
    // The holder lives, so the line waits for it.
    other.line_up(|| asked.fetch_add(1, Relaxed) < 3);
    assert_eq!(asked.into_inner(), 4);
    assert_ne!(ticket(&first), 0);
}

#[test]
fn a_member_that_is_gone_holds_nothing() {
    let (_folder, [one, gone]) = members();
    gone.begun();
    gone.take_place_and_die();
    one.line_up(|| true);
    assert_eq!(one.page.holder().load(Acquire), 0);
}

impl Sharing {
    /// Takes a ticket, and ends as a process that is killed.
    fn take_place_and_die(self: Arc<Self>) {
        self.wait_at_lock(Duration::ZERO);
        self.membership.lose_locks();
        std::mem::forget(self);
    }
}

#[test]
fn one_sync_covers_all_commits_that_are_counted_as_it_begins() {
    let (_folder, [one, other, third]) = members();
    let syncs = Arc::new(AtomicU64::new(0));
    let mut waiting = Vec::new();
    one.make_durable(|| {
        // The baton is taken: these are counted, and wait.
        for member in [&other, &third] {
            let (member, syncs) = (Arc::clone(member), Arc::clone(&syncs));
            waiting.push(std::thread::spawn(move || {
                let sync = || {
                    syncs.fetch_add(1, Relaxed);
                    Ok(())
                };
                member.make_durable(sync).unwrap();
            }));
        }
        eventually("all are counted", || one.page.committed().load(Acquire) == 3);
        // This sync began before them, so it covers the first commit only.
        assert_eq!(one.page.synced().load(Acquire), 0);
        Ok(())
    })
    .unwrap();
    for thread in waiting {
        thread.join().unwrap();
    }
    let stats = [&other, &third].map(|member| member.stats());
    let sum = |of: fn(&SharingStats) -> u64| stats.iter().map(of).sum::<u64>();
    // On a slow machine one may have waited for so long that it synced by itself.
    if sum(|it| it.lonely_syncs) == 0 {
        assert_eq!(syncs.load(Relaxed), 1, "the second round covers both");
        assert_eq!(one.page.synced().load(Acquire), 3);
        assert_eq!((sum(|it| it.syncs_of_others), sum(|it| it.own_syncs)), (1, 1));
    }
}

#[test]
fn a_sync_does_not_cover_a_commit_that_came_after_it_began() {
    let (_folder, [one, other]) = members();
    let durable = one.make_durable(|| {
        other.page.committed().fetch_add(1, AcqRel);
        Ok(())
    });
    durable.unwrap();
    assert_eq!(one.page.synced().load(Acquire), 1);
    assert_eq!(one.page.committed().load(Acquire), 2);
    assert_eq!(commit(&other), 1);
    assert_eq!(one.page.synced().load(Acquire), 3);
}

#[test]
fn a_member_syncs_alone_while_another_keeps_the_baton() {
    let (_folder, [stopped, other, third]) = members();
    assert!(stopped.membership.take_baton());
    assert_eq!(commit(&other), 1);
    assert_eq!((other.stats().lonely_syncs, other.stats().own_syncs), (1, 0));
    // It did not hold the baton, so it says nothing of the others' commits.
    assert_eq!(other.page.synced().load(Acquire), 0);
    // The next one does not wait: syncs are that slow now that it would wait for five seconds.
    other.page.sync_ns().store(u64::MAX, Relaxed);
    let began = Instant::now();
    assert_eq!(commit(&third), 1);
    assert!(began.elapsed() < Duration::from_secs(4));
    stopped.membership.leave_baton();
    assert_eq!(commit(&other), 1);
    assert_eq!((other.stats().lonely_syncs, other.stats().own_syncs), (1, 1));
    assert!(!other.page.is_stuck());
}

#[test]
fn nonsense_is_no_sync() {
    let (_folder, [one, other]) = members();
    let page = &one.page;
    commit(&one);
    for (committed, synced) in [(1, u64::MAX), (u64::MAX, 1), (0, 7), (u64::MAX, u64::MAX)] {
        page.committed().store(committed, Release);
        page.synced().store(synced, Release);
        page.sync_ns().store(u64::MAX, Relaxed);
        page.last_round().store(u64::MAX, Relaxed);
        page.gather_at().store(1, Relaxed);
        page.broken().store(1, Release);
        assert_eq!(commit(&other), 1, "{committed} {synced}");
        // It is repaired, so that members share syncs again.
        assert_eq!(page.synced().load(Acquire), page.committed().load(Acquire));
        assert_eq!(commit(&one), 1);
    }
}

#[test]
fn after_a_sync_that_failed_no_member_goes_on_and_none_joins() {
    let (folder, [one, other]) = members();
    assert!(matches!(one.make_durable(|| Err(failed())), Err(NotSynced::Here(_))));
    let no_sync = || panic!("a sync after one that failed says nothing");
    assert!(matches!(other.make_durable(no_sync), Err(NotSynced::Elsewhere)));
    assert!(matches!(one.make_durable(no_sync), Err(NotSynced::Elsewhere)));
    let join = || Sharing::join(&folder.path().join("a.db"));
    assert!(matches!(join(), Err(NotJoined::SyncFailed)));
    drop((one, other));
    join().unwrap();
}

#[test]
fn a_sync_beside_one_that_failed_is_no_success() {
    let (_folder, [one, other]) = members();
    let durable = one.make_durable(|| {
        other.sync_failed();
        Ok(())
    });
    assert!(matches!(durable, Err(NotSynced::Elsewhere)));
    assert_eq!(one.page.synced().load(Acquire), 0);
    // A member that syncs alone.
    let (_folder, [one, other, stopped]) = members();
    assert!(stopped.membership.take_baton());
    assert!(matches!(one.make_durable(|| Err(failed())), Err(NotSynced::Here(_))));
    assert!(matches!(other.make_durable(|| Ok(())), Err(NotSynced::Elsewhere)));
}

#[test]
fn a_member_that_does_not_move_loses_its_place() {
    let (_folder, [idle, other]) = members();
    let page = &other.page;
    for slot in [idle.membership.slot(), NO_MEMBER] {
        for holder in [0, NO_MEMBER as u64 + 1, u64::MAX] {
            page.last_ticket().store(7, Release);
            page.tickets()[slot].store(1, Release);
            page.holder().store(holder, Release);
            line_up(&other);
            assert_eq!(page.tickets()[slot].load(Acquire), 0, "{slot}, {holder}");
            other.begun();
            other.ending();
            other.leave_line();
            assert_eq!(page.holder().load(Acquire), 0);
        }
    }
}

#[test]
fn a_transaction_that_does_not_end_is_left_to_sqlites_lock() {
    let (_folder, [idle, other]) = members();
    let slot = idle.membership.slot();
    other.page.last_ticket().store(7, Release);
    other.page.tickets()[slot].store(1, Release);
    other.page.holder().store(slot as u64 + 1, Release);
    line_up(&other);
    assert_eq!(other.page.tickets()[slot].load(Acquire), 1);
}

#[test]
fn a_member_puts_back_its_ticket_that_was_taken_away() {
    let (_folder, [first, ours, third]) = members();
    let page = &ours.page;
    let own_ticket = || page.tickets()[ours.membership.slot()].load(Acquire);
    page.last_ticket().store(7, Release);
    page.tickets()[first.membership.slot()].store(1, Release);
    let looks = Cell::new(0);
    let put_back = Cell::new(None);
    ours.line_up(|| {
        // The line moves, so that patience does not end.
        let holder = if looks.get() % 2 == 0 { &first } else { &third };
        page.holder().store(holder.membership.slot() as u64 + 1, Release);
        looks.set(looks.get() + 1);
        match looks.get() {
            1 => assert_eq!(own_ticket(), 8),
            2 => page.tickets()[ours.membership.slot()].store(0, Release),
            _ => put_back.set(Some(own_ticket())),
        }
        put_back.get().is_none()
    });
    assert_eq!(put_back.get(), Some(8));
}
