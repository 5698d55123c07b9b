//! All or nothing, by a clock that is set by hand, and random transfers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::*;
use crate::queue::{Clock, LeaseLost, ManualClock, Payload, Settings, UniqueFor};
use crate::writer::Writer;

const EXPIRY: Duration = Duration::from_secs(30);
const EXPIRY_MS: i64 = 30_000;

struct Stage {
    from: Queue,
    to: Queue,
    time: ManualClock,
    _folder: tempfile::TempDir,
}

/// Two queues of one writer; jobs "0", "1", … in the first.
fn stage(jobs: usize) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::builder(folder.path().join("queue.db")).open().unwrap();
    let (clock, time) = Clock::manual(1_000_000);
    let patient = |settings: &mut Settings| settings.attempts_max = 1_000_000;
    let from = Queue::builder(&writer, "from").clock(clock).settings(patient).open().unwrap();
    let to = Queue::builder(&writer, "to").settings(patient).open().unwrap();
    from.push_many((0..jobs).map(|job| Job::bytes(job.to_string()))).unwrap();
    Stage { from, to, time, _folder: folder }
}

impl Stage {
    /// Rows of each state in both queues: ready and leased.
    fn counts(&self) -> [[i64; 2]; 2] {
        // Whatever was only submitted so far is done before this.
        self.from.settings().unwrap();
        let count = |queue: &Queue, state: i64| {
            let sql = "SELECT count(*) FROM leafpress_job WHERE queue = ?1 AND state = ?2";
            let writer = queue.writer().clone();
            let reader = writer.reader().unwrap();
            reader.query_row(sql, [queue.id, state], |row| row.get(0)).unwrap()
        };
        [&self.from, &self.to].map(|queue| [count(queue, 0), count(queue, 1)])
    }

    /// A transaction with this many claims, each to be handed on.
    fn transfer(&self, jobs: usize) -> QueueTransaction {
        let mut transaction = self.from.begin(EXPIRY).unwrap();
        for claim in transaction.claim_many(jobs).unwrap() {
            transaction.push_to(&self.to, claim.payload).unwrap();
        }
        transaction
    }
}

fn why_lost(error: &Error) -> (Token, LeaseLost) {
    match error.kind() {
        ErrorKind::LeaseLost { token, why } => (*token, *why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_acks_and_pushes() {
    let stage = stage(3);
    let mut transaction = stage.transfer(2);
    transaction.push("one more");
    assert_eq!(stage.counts(), [[1, 2], [0, 0]], "nothing is to be seen of the pushes");
    let committed = transaction.commit().unwrap();
    assert_eq!((committed.acked, committed.pushed.len()), (2, 3));
    assert!(committed.pushed.iter().all(|pushed| pushed.is_new));
    assert!(committed.pushed.is_sorted_by_key(|pushed| pushed.id));
    assert_eq!(stage.counts(), [[2, 0], [2, 0]]);
    assert_eq!(stage.to.claim().unwrap().unwrap().payload, Payload::bytes("0"));
}

#[test]
fn claims_are_leased_until_the_expiry() {
    let stage = stage(3);
    let mut transaction = stage.from.begin(EXPIRY).unwrap();
    let expires_at_ms = transaction.expires_at().as_ms();
    assert_eq!(expires_at_ms, stage.time.now_ms() + EXPIRY_MS);
    for _ in 0..2 {
        assert_eq!(transaction.claim().unwrap().unwrap().lease_until.as_ms(), expires_at_ms);
        stage.time.advance_ms(10_000);
    }
    assert!(transaction.claim_many(0).unwrap().is_empty());
    assert_eq!(transaction.extend(EXPIRY).unwrap().as_ms(), stage.time.now_ms() + EXPIRY_MS);
    stage.time.advance_ms(EXPIRY_MS - 1);
    assert_eq!(transaction.claim().unwrap().unwrap().lease_until.as_ms(), stage.time.now_ms() + 1);
    assert_eq!(transaction.commit().unwrap().acked, 3);
}

#[test]
fn a_clock_that_is_set_back_makes_no_lease_longer() {
    let stage = stage(2);
    let mut transaction = stage.from.begin(EXPIRY).unwrap();
    stage.time.advance_ms(-3_600_000);
    let lease_ends_ms = stage.time.now_ms() + EXPIRY_MS;
    assert_eq!(transaction.claim().unwrap().unwrap().lease_until.as_ms(), lease_ends_ms);
    let claim = stage.from.claim().unwrap().unwrap();
    transaction.include(claim.token).unwrap();
    stage.time.advance_ms(EXPIRY_MS);
    assert!((0..2).all(|_| stage.from.claim().unwrap().is_some()), "both leases have ended");
}

#[test]
fn one_lost_lease_and_nothing_happens() {
    let stage = stage(2);
    let mut transaction = stage.transfer(2);
    transaction.push("one more");
    let second = transaction.tokens[1];
    // The second lease ends early, and another consumer has the job.
    stage.from.extend(second, Duration::from_millis(1)).unwrap();
    stage.time.advance_ms(1);
    let theirs = stage.from.claim().unwrap().unwrap();
    assert_eq!(theirs.id, second.job);
    let error = transaction.commit().unwrap_err();
    assert_eq!(why_lost(&error), (second, LeaseLost::ClaimedAgain));
    assert!(error.to_string().contains("on disk: nothing of this call"), "{error}");
    assert_eq!(stage.counts(), [[1, 1], [0, 0]], "the first was given back");
    stage.from.ack(theirs.token).unwrap();
    assert_eq!(stage.from.claim().unwrap().unwrap().attempt, 1, "without an attempt");
}

#[test]
fn a_transaction_that_has_expired_does_nothing_and_says_so() {
    let stage = stage(1);
    let transaction = stage.transfer(1);
    let token = transaction.tokens[0];
    stage.time.advance_ms(EXPIRY_MS);
    assert_eq!(why_lost(&transaction.commit().unwrap_err()), (token, LeaseLost::Expired));

    let mut without_claims = stage.from.begin(EXPIRY).unwrap();
    without_claims.push("late");
    stage.time.advance_ms(EXPIRY_MS);
    let expired = |error: &Error| matches!(error.kind(), ErrorKind::TransactionExpired { .. });
    assert!(expired(&without_claims.claim().unwrap_err()));
    assert!(expired(&without_claims.extend(EXPIRY).unwrap_err()));
    assert!(expired(&without_claims.commit().unwrap_err()));
    assert_eq!(stage.counts(), [[0, 1], [0, 0]]);
    assert_eq!(stage.from.claim().unwrap().unwrap().attempt, 2, "the first was an attempt");
}

#[test]
fn a_rollback_and_a_drop_give_back_without_an_attempt() {
    let stage = stage(2);
    stage.transfer(2).rollback().unwrap();
    assert_eq!(stage.counts(), [[2, 0], [0, 0]]);
    drop(stage.transfer(2));
    // In the order of the calls, so the drop was before this.
    let claims = stage.from.claim_with(&ClaimOptions::new().jobs_max(5)).unwrap();
    assert!(claims.iter().all(|claim| claim.attempt == 1 && claim.token.claim == 3));
    assert_eq!(stage.counts(), [[0, 2], [0, 0]]);
}

#[test]
fn a_rollback_leaves_alone_what_others_have_by_now() {
    let stage = stage(2);
    let transaction = stage.transfer(2);
    stage.time.advance_ms(EXPIRY_MS);
    let theirs = stage.from.claim().unwrap().unwrap();
    transaction.rollback().unwrap();
    stage.from.ack(theirs.token).unwrap();
    assert_eq!(stage.counts(), [[1, 0], [0, 0]]);
}

#[test]
fn after_a_crash_the_leases_run_out() {
    let stage = stage(1);
    std::mem::forget(stage.transfer(1));
    stage.time.advance_ms(EXPIRY_MS - 1);
    assert!(stage.from.claim().unwrap().is_none());
    stage.time.advance_ms(1);
    let claim = stage.from.claim().unwrap().unwrap();
    assert_eq!((claim.payload, claim.attempt), (Payload::bytes("0"), 2));
    assert_eq!(stage.counts(), [[0, 1], [0, 0]], "and nothing was pushed");
}

#[test]
fn a_panic_writes_nothing_so_it_counts_as_an_attempt() {
    let stage = stage(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _transaction = stage.transfer(1);
        panic!("as a test of it");
    }));
    assert!(panicked.is_err());
    assert_eq!(stage.counts(), [[0, 1], [0, 0]], "it is leased");
    stage.time.advance_ms(EXPIRY_MS);
    assert_eq!(stage.from.claim().unwrap().unwrap().attempt, 2);
}

#[test]
fn a_drop_after_the_writer_stopped_is_quiet() {
    let stage = stage(1);
    let transaction = stage.transfer(1);
    stage.from.writer().clone().close().unwrap();
    drop(transaction);
    let transaction = stage.from.begin(EXPIRY).unwrap();
    assert!(matches!(transaction.commit().unwrap_err().kind(), ErrorKind::Stopped { .. }));
}

#[test]
fn a_claim_that_is_held_can_be_included() {
    let stage = stage(2);
    let claims = stage.from.claim_with(&ClaimOptions::new().jobs_max(2)).unwrap();
    let elsewhere = stage.to.push("elsewhere").unwrap();
    let of_other_queue = stage.to.claim().unwrap().unwrap();
    let mut transaction = stage.from.begin(EXPIRY * 2).unwrap();
    for token in [claims[0].token, claims[0].token, of_other_queue.token] {
        transaction.include(token).unwrap();
    }
    stage.time.advance_ms(EXPIRY_MS + 1);
    let lost = transaction.include(claims[1].token).unwrap_err();
    assert_eq!(why_lost(&lost), (claims[1].token, LeaseLost::Expired));
    assert_eq!(transaction.commit().unwrap().acked, 2);
    assert!(elsewhere.is_new);
    assert_eq!(stage.to.claim().unwrap(), None);
}

#[test]
fn a_key_that_is_held_does_not_stop_the_others() {
    let stage = stage(0);
    let keyed = || Job::bytes("keyed").unique("key", UniqueFor::WaitingOrRunning);
    let holder = stage.to.push(keyed()).unwrap();
    let mut transaction = stage.from.begin(EXPIRY).unwrap();
    transaction.push_to(&stage.to, keyed()).unwrap();
    transaction.push_to(&stage.to, "other").unwrap();
    let pushed = transaction.commit().unwrap().pushed;
    assert_eq!(pushed[0], Pushed { id: holder.id, is_new: false });
    assert!(pushed[1].is_new);
}

#[test]
fn rows_of_the_application_are_part_of_a_commit_or_undone_with_it() {
    let stage = stage(1);
    let writer = stage.from.writer().clone();
    writer.execute_batch("CREATE TABLE done(job)").unwrap();
    let rows = || {
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        writer.reader().unwrap().query_row("SELECT count(*) FROM done", [], count).unwrap()
    };
    let insert = |tx: &Transaction<'_>| tx.execute("INSERT INTO done VALUES (1)", ());

    let given_up = stage.transfer(1).commit_with(move |tx| {
        insert(tx)?;
        Err::<(), _>(Error::aborted("as a test of it"))
    });
    assert!(matches!(given_up.unwrap_err().kind(), ErrorKind::Aborted(_)));
    assert_eq!((stage.counts(), rows()), ([[1, 0], [0, 0]], 0));

    let late = stage.transfer(1);
    let token = late.tokens[0];
    stage.time.advance_ms(EXPIRY_MS);
    assert_eq!(why_lost(&late.commit_with(insert).unwrap_err()), (token, LeaseLost::Expired));
    assert_eq!((stage.counts(), rows()), ([[0, 1], [0, 0]], 0));

    // The clock goes on while the body runs: what it did is undone.
    let time = stage.time.clone();
    let slow = stage.transfer(1).commit_with(move |tx| {
        time.advance_ms(EXPIRY_MS);
        insert(tx)
    });
    assert_eq!(why_lost(&slow.unwrap_err()).1, LeaseLost::Expired);
    assert_eq!((stage.counts(), rows()), ([[0, 1], [0, 0]], 0));

    let (committed, executed) = stage.transfer(1).commit_with(insert).unwrap();
    assert_eq!((committed.acked, committed.pushed.len(), executed.rows_changed), (1, 1, 1));
    assert_eq!((stage.counts(), rows()), ([[0, 0], [1, 0]], 1));
}

#[test]
fn what_cannot_be_one_is_refused() {
    let (stage, other) = (stage(0), stage(0));
    let mut transaction = stage.from.begin(EXPIRY).unwrap();
    let error = transaction.push_to(&other.to, "elsewhere").unwrap_err().to_string();
    assert!(error.contains("'to' is not of the writer") && error.contains("to do"), "{error}");
    assert_eq!(transaction.commit().unwrap(), Committed { acked: 0, pushed: Vec::new() });
    assert!(stage.from.begin(Duration::ZERO).is_err());
}

/// End of a transfer.
#[derive(Debug, Clone, Copy)]
enum End {
    Commit,
    Rollback,
    Drop,
    Forget,
}

fn ends() -> impl Strategy<Value = (u8, usize, i64, End)> {
    let end = prop_oneof![
        3 => Just(End::Commit), 1 => Just(End::Rollback), 1 => Just(End::Drop), 1 => Just(End::Forget),
    ];
    // Which way or which open transfer, jobs, how far the clock goes, how one ends.
    (any::<u8>(), 1_usize..6, prop_oneof![3 => 0_i64..3_000, 1 => 0_i64..40_000], end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn transfers_neither_lose_nor_double_a_job(steps in prop::collection::vec(ends(), 1..40)) {
        let jobs = 12;
        let stage = stage(jobs);
        let mut open: Vec<QueueTransaction> = Vec::new();
        for (pick, count, advance_ms, end) in steps {
            stage.time.advance_ms(advance_ms);
            let (from, to) =
                if pick % 2 == 0 { (&stage.from, &stage.to) } else { (&stage.to, &stage.from) };
            let mut transaction = from.begin(EXPIRY).unwrap();
            for claim in transaction.claim_many(count).unwrap() {
                transaction.push_to(to, claim.payload).unwrap();
            }
            open.push(transaction);
            let ended = open.swap_remove(usize::from(pick / 2) % open.len());
            match end {
                // Some are late, and change nothing.
                End::Commit => drop(ended.commit()),
                End::Rollback => ended.rollback().unwrap(),
                End::Drop => drop(ended),
                End::Forget => std::mem::forget(ended),
            }
        }
        open.into_iter().for_each(std::mem::forget);
        stage.time.advance_ms(EXPIRY_MS);
        let mut found = Vec::new();
        for queue in [&stage.from, &stage.to] {
            for claim in queue.claim_with(&ClaimOptions::new().jobs_max(1_000)).unwrap() {
                let text = String::from_utf8(claim.payload.as_bytes().to_owned()).unwrap();
                found.push(text.parse::<usize>().unwrap());
            }
        }
        found.sort_unstable();
        prop_assert!(found.into_iter().eq(0..jobs));
    }
}
