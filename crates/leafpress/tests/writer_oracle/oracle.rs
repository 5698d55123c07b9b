//! Random calls, grouped on purpose and by chance, against the model.

use std::sync::Mutex;
use std::sync::mpsc;

use leafpress::Profile;
use leafpress::writer::{Ticket, Writer};
use proptest::prelude::*;
use tempfile::TempDir;

use super::calls::{Ask, Outcome, Waiting, ask, schema};
use super::model::{Model, content};

/// A writer on a new database with the schema in it.
pub struct Opened {
    pub writer: Writer,
    pub folder: TempDir,
}

pub fn open(profile: Profile, says_fail: bool) -> Opened {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let builder = Writer::builder(&path).profile(profile).foreign_keys(true);
    let writer = builder.open().expect("a writer");
    writer.execute_batch(schema(says_fail)).expect("the schema");
    Opened { writer, folder }
}

/// Keeps the writer busy, so that all calls made meanwhile form one group.
pub struct Held {
    release: mpsc::Sender<()>,
    ticket: Ticket<()>,
}

pub fn hold(writer: &Writer) -> Held {
    let (release, held) = mpsc::channel::<()>();
    let (begun, is_begun) = mpsc::channel();
    let body = move |_: &leafpress::writer::Transaction<'_>| {
        // Again after a replay, when no thread listens any more.
        let _ = begun.send(());
        let _ = held.recv();
        Ok(())
    };
    let ticket = writer.submit_transaction(body).expect("the writer takes calls");
    is_begun.recv().expect("the writer begins");
    Held { release, ticket }
}

impl Held {
    pub fn release(self) {
        self.release.send(()).expect("the writer waits");
        self.ticket.wait().expect("it does nothing");
    }

    /// Lets the writer go on to its next group, which `spoil` is meant for.
    pub fn release_unknown(self, spoil: impl FnOnce()) {
        spoil();
        self.release.send(()).expect("the writer waits");
        // A group in which nothing was written needs no disk.
        self.ticket.wait().expect("it does nothing");
    }
}

/// Submits all, lets go, and waits.
fn as_one_group(writer: &Writer, asks: &[Ask]) -> Vec<Outcome> {
    let held = hold(writer);
    let waiting: Vec<Waiting> = asks.iter().map(|ask| ask.submit(writer)).collect();
    held.release();
    waiting.into_iter().map(Waiting::wait).collect()
}

fn check_content(opened: &Opened, model: &Model) -> Result<(), TestCaseError> {
    let reader = opened.writer.reader().expect("a reader");
    prop_assert_eq!(content(&reader), content(&model.connection));
    let sound: String =
        reader.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    prop_assert_eq!(sound, "ok");
    Ok(())
}

fn profile() -> impl Strategy<Value = Profile> {
    prop_oneof![3 => Just(Profile::Relaxed), 1 => Just(Profile::Rollback)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// Several groups, each of which is known to be one.
    #[test]
    fn each_call_of_a_group_ends_as_it_would_alone(
        profile in profile(), says_fail: bool,
        groups in prop::collection::vec(prop::collection::vec(ask(), 0..12), 1..4),
    ) {
        let opened = open(profile, says_fail);
        let model = Model::new(says_fail);
        for asks in &groups {
            let outcomes = as_one_group(&opened.writer, asks);
            for (ask, outcome) in asks.iter().zip(outcomes) {
                prop_assert_eq!(outcome, model.carry_out(ask), "{:?}", ask);
            }
            check_content(&opened, &model)?;
        }
        prop_assert_eq!(opened.writer.stopped(), None);
        opened.writer.close().expect("all is well");
    }

    /// Threads that wait for each call, or for none before the end. Each thread notes its calls
    /// as it submits them, so that the order is known.
    #[test]
    fn threads_get_the_outcomes_of_the_order_in_which_they_submitted(
        profile in profile(), says_fail: bool,
        callers in prop::collection::vec((prop::collection::vec(ask(), 0..10), any::<bool>()), 1..5),
    ) {
        let opened = open(profile, says_fail);
        let order = Mutex::new(Vec::new());
        let work = |at: usize, asks: &[Ask], pipelined: bool| {
            let mut waiting = Vec::new();
            let mut outcomes = Vec::new();
            for ask in asks {
                let mut order = order.lock().expect("no panic");
                waiting.push(ask.submit(&opened.writer));
                order.push((at, ask.clone()));
                drop(order);
                if !pipelined {
                    outcomes.extend(waiting.pop().map(Waiting::wait));
                }
            }
            outcomes.extend(waiting.into_iter().map(Waiting::wait));
            outcomes
        };
        let work = &work;
        let outcomes: Vec<Vec<Outcome>> = std::thread::scope(|scope| {
            let callers = callers.iter().enumerate();
            let threads: Vec<_> = callers
                .map(|(at, (asks, pipelined))| scope.spawn(move || work(at, asks, *pipelined)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let model = Model::new(says_fail);
        let mut outcomes: Vec<_> = outcomes.into_iter().map(Vec::into_iter).collect();
        for (at, ask) in order.into_inner().expect("no panic") {
            prop_assert_eq!(outcomes[at].next(), Some(model.carry_out(&ask)), "{:?}", ask);
        }
        check_content(&opened, &model)?;
    }
}
