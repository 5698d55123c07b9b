//! Tests of the line and of the rounds: members are threads of this process, each with an opening of
//! the file of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::rounds::NotSynced;
use super::tests::failed;
use super::{Sharing, SharingStats};

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    std::fs::write(&path, "").unwrap();
    (folder, path)
}

fn members<const N: usize>(path: &Path) -> [Arc<Sharing>; N] {
    std::array::from_fn(|_| Arc::new(Sharing::join(path).unwrap()))
}

/// Waits until this holds.
fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ticket(member: &Sharing) -> u64 {
    member.page.tickets()[member.membership.slot()].load(Ordering::Acquire)
}

#[test]
fn each_member_in_the_line_gets_its_turn() {
    let (_folder, path) = folder();
    let [holder, rest @ ..] = members::<5>(&path);
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
            let lock = || {
                let (held, free) = (Ordering::AcqRel, Ordering::Acquire);
                is_locked.compare_exchange(false, true, held, free).is_err()
            };
            while lock() {
                of_thread.wait_at_lock(Duration::from_millis(1));
            }
            of_thread.begun();
            say.send(number).unwrap();
            of_thread.ending();
            is_locked.store(false, Ordering::Release);
            of_thread.leave_line();
        }));
        wait_until(|| ticket(&member) != 0);
    }
    holder.ending();
    is_locked.store(false, Ordering::Release);
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
fn a_member_that_does_not_move_loses_its_ticket_and_no_other_one_waits_for_it() {
    let (_folder, path) = folder();
    let [stopped, other, third] = members(&path);
    stopped.wait_at_lock(Duration::ZERO);
    assert_ne!(ticket(&stopped), 0);
    other.line_up(|| true);
    assert_eq!(ticket(&stopped), 0, "it is before no other one any more");
    other.leave_line();
    let waits = || third.stats().waits_in_line;
    third.line_up(|| true);
    assert_eq!(waits(), 0);
    // It goes on, and waits as before.
    stopped.wait_at_lock(Duration::ZERO);
    assert_ne!(ticket(&stopped), 0);
}

#[test]
fn a_wait_in_the_line_ends_when_the_caller_says_so() {
    let (_folder, path) = folder();
    let [holder, first, other] = members(&path);
    holder.begun();
    first.wait_at_lock(Duration::ZERO);
    let asked = AtomicU64::new(0);
    // The holder lives, so the line waits for it.
    other.line_up(|| asked.fetch_add(1, Ordering::Relaxed) < 3);
    assert_eq!(asked.into_inner(), 4);
    assert_ne!(ticket(&first), 0);
}

#[test]
fn a_member_that_is_gone_holds_nothing() {
    let (_folder, path) = folder();
    let [one, other, gone] = members(&path);
    gone.begun();
    gone.take_place_and_die();
    one.line_up(|| true);
    assert_eq!(one.page.holder().load(Ordering::Acquire), 0);
    drop(other);
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
    let (_folder, path) = folder();
    let [one, other, third] = members(&path);
    let syncs = Arc::new(AtomicU64::new(0));
    let mut waiting = Vec::new();
    one.make_durable(|| {
        // The baton is taken: these are counted, and wait.
        for member in [&other, &third] {
            let (member, syncs) = (Arc::clone(member), Arc::clone(&syncs));
            waiting.push(std::thread::spawn(move || {
                let sync = || {
                    syncs.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                member.make_durable(sync).unwrap();
            }));
        }
        wait_until(|| one.page.committed().load(Ordering::Acquire) == 3);
        // This sync began before them, so it covers the first commit only.
        assert_eq!(one.page.synced().load(Ordering::Acquire), 0);
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
        assert_eq!(syncs.load(Ordering::Relaxed), 1, "the second round covers both");
        assert_eq!(one.page.synced().load(Ordering::Acquire), 3);
        assert_eq!((sum(|it| it.syncs_of_others), sum(|it| it.own_syncs)), (1, 1));
    }
}

#[test]
fn a_member_syncs_by_itself_if_the_baton_does_not_come() {
    let (_folder, path) = folder();
    let [stopped, other] = members(&path);
    assert!(stopped.membership.take_baton());
    let mut syncs = 0;
    other
        .make_durable(|| {
            syncs += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!((syncs, other.stats().lonely_syncs, other.stats().own_syncs), (1, 1, 0));
    // It did not hold the baton, so it says nothing of the others' commits.
    assert_eq!(other.page.synced().load(Ordering::Acquire), 0);
}

#[test]
fn after_a_sync_that_failed_no_member_answers_and_none_joins() {
    let (_folder, path) = folder();
    let [one, other] = members(&path);
    assert!(matches!(one.make_durable(|| Err(failed())), Err(NotSynced::Here(_))));
    let mut syncs = 0;
    let answer = other.make_durable(|| {
        syncs += 1;
        Ok(())
    });
    assert!(matches!(answer, Err(NotSynced::Elsewhere)), "{answer:?}");
    assert_eq!(syncs, 0);
    let refused = Sharing::join(&path).unwrap_err();
    assert!(refused.contains("a sync of the log has failed"), "{refused}");
    drop((one, other));
    Sharing::join(&path).unwrap();
}
