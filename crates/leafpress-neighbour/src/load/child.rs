//! The process with two copies: gives out ids, runs the threads, and tells the parent.
//!
//! Must never: tell of a transaction before it is acknowledged.

use std::fmt::Debug;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafpress::writer::Writer;
use leafpress_testing::crash::Random;

use super::{Copies, Load, THREADS_EACH, neighbour_side, our_side};

const CHILD_FLAG: &str = "--two-copies";
/// One transaction waits this long for locks at most: far beyond what sixteen threads
/// need, so that it is reached only where locks are broken.
const PATIENCE: Duration = Duration::from_secs(120);
/// Wait for locks in the control, where locks may be lost for good.
const PATIENCE_OF_CONTROL: Duration = Duration::from_secs(2);
/// Time without a transaction after which the child hangs.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// A child that breaks this often has said enough.
const BREAKS_MAX: u64 = 500;

/// Does the load and ends the process, if it was started as a child. A test without a
/// harness calls this first.
///
/// # Panics
/// If the arguments are none that the parent gives, or the database cannot be opened.
pub fn run_if_child() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [CHILD_FLAG, path, profile, first_id, transactions, seed, with_leafpress, copies] =
        arguments[..]
    else {
        return;
    };
    let load = Load {
        profile: profile.parse().unwrap(),
        first_id: first_id.parse().unwrap(),
        transactions: transactions.parse().unwrap(),
        seed: seed.parse().unwrap(),
        with_leafpress: with_leafpress.parse().unwrap(),
        copies: match copies {
            "Ours" => Copies::Ours,
            "Neighbours" => Copies::Neighbours,
            _ => Copies::Both,
        },
    };
    run(path.as_ref(), load);
    std::process::exit(0);
}

/// The arguments with which a child is started.
pub(super) fn arguments(path: &Path, load: Load) -> [String; 8] {
    let Load { profile, first_id, transactions, seed, with_leafpress, copies } = load;
    [
        CHILD_FLAG.to_owned(),
        path.to_str().unwrap().to_owned(),
        profile.name().to_owned(),
        first_id.to_string(),
        transactions.to_string(),
        seed.to_string(),
        with_leafpress.to_string(),
        format!("{copies:?}"),
    ]
}

/// The statements of a transaction: one to three rows.
pub fn transaction_of(id: i64) -> Vec<String> {
    let parts = parts_of(id);
    let bytes = [10, 10, 30, 200, 200, 2500][(id % 6) as usize];
    (0..parts)
        .map(|part| {
            format!(
                "INSERT INTO entry (id, part, parts, payload)
                 VALUES ({id}, {part}, {parts}, zeroblob({bytes}))"
            )
        })
        .collect()
}

/// The number of rows of a transaction.
pub(super) fn parts_of(id: i64) -> i64 {
    1 + id % 3
}

/// The query for the rows of a transaction.
pub(super) fn rows_of(id: i64) -> String {
    format!("SELECT count(*) FROM entry WHERE id = {id}")
}

/// State that the threads of a child share.
pub(super) struct Shared<'a> {
    pub path: &'a Path,
    pub load: Load,
    pub patience: Duration,
    next_id: AtomicI64,
    answered: AtomicU64,
    is_done: AtomicBool,
    breaks: AtomicU64,
    given_up: AtomicBool,
}

impl Shared<'_> {
    /// The id of a new transaction, until there were enough.
    pub fn next_id(&self) -> Option<i64> {
        if self.given_up.load(Ordering::Relaxed) {
            return None;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        (id < self.load.first_id + self.load.transactions).then_some(id)
    }

    /// A transaction was acknowledged.
    pub fn acknowledged(&self, id: i64) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        tell(&format!("ack {id}\n"));
    }

    /// Something was answered that must not be: by no lock is it explained.
    pub fn broken(&self, what: impl Debug) {
        let text = format!("{what:?}").replace('\n', " ");
        tell(&format!("broken {text}\n"));
        if self.breaks.fetch_add(1, Ordering::Relaxed) > BREAKS_MAX {
            self.given_up.store(true, Ordering::Relaxed);
        }
    }
}

/// One write for the line, shorter than what a pipe takes whole: no line is torn.
fn tell(line: &str) {
    let mut line: String = line.chars().take(1000).collect();
    if !line.ends_with('\n') {
        line.push('\n');
    }
    // It fails only without a parent, and then there is no listener.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Tries a transaction until it is acknowledged, as long as the answer is that others
/// hold locks.
pub(super) enum Attempt {
    Acknowledged,
    Busy,
}

/// Repeats `attempt` while it is busy; true if it was acknowledged.
pub(super) fn commit<E: Debug>(
    shared: &Shared<'_>,
    id: i64,
    mut attempt: impl FnMut() -> Result<Attempt, E>,
) -> bool {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(Attempt::Acknowledged) => {
                shared.acknowledged(id);
                return true;
            }
            Ok(Attempt::Busy) if began.elapsed() < shared.patience => {}
            Ok(Attempt::Busy) => {
                shared.broken(format!("transaction {id} was busy for {:?}", began.elapsed()));
                return false;
            }
            Err(error) => {
                shared.broken((id, error));
                return false;
            }
        }
    }
}

fn run(path: &Path, load: Load) {
    let patience = if load.with_leafpress { PATIENCE } else { PATIENCE_OF_CONTROL };
    let shared = Shared {
        path,
        load,
        patience,
        next_id: AtomicI64::new(load.first_id),
        answered: AtomicU64::new(0),
        is_done: AtomicBool::new(false),
        breaks: AtomicU64::new(0),
        given_up: AtomicBool::new(false),
    };
    // Before any thread: what guards against the other copy stands from here on.
    let has_ours = load.copies != Copies::Neighbours;
    let writer = (load.with_leafpress && has_ours).then(|| our_side::open_writer(&shared));
    std::thread::scope(|scope| {
        scope.spawn(|| end_if_silent(&shared));
        std::thread::scope(|scope| {
            for thread in 0..THREADS_EACH {
                let (shared, writer) = (&shared, writer.as_ref());
                if load.copies != Copies::Ours {
                    scope.spawn(move || {
                        neighbour_side::work(shared, &mut Random::of(&[load.seed, thread, 0]));
                    });
                }
                if has_ours {
                    scope.spawn(move || {
                        our_side::work(shared, writer, &mut Random::of(&[load.seed, thread, 1]));
                    });
                }
            }
        });
        shared.is_done.store(true, Ordering::Relaxed);
    });
    if let Some(Err(error)) = writer.map(Writer::close) {
        shared.broken(error);
    }
    tell("done\n");
}

/// Ends the process if it hangs, so that the parent does not.
fn end_if_silent(shared: &Shared<'_>) {
    let (mut answered, mut since) = (0, Instant::now());
    while !shared.is_done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        let now = shared.answered.load(Ordering::Relaxed);
        if now != answered {
            (answered, since) = (now, Instant::now());
        }
        if since.elapsed() > SILENCE_MAX {
            shared.broken(format!("no transaction ended for {SILENCE_MAX:?}"));
            std::process::exit(1);
        }
    }
}
