//! The model of `rounds.rs`: commits, rounds and syncs, on a disk that may fail once.
//!
//! | step ([`At`]) | in `rounds.rs` |
//! |---|---|
//! | `Write` | COMMIT, before `make_durable` is called |
//! | `Count` | `committed().fetch_add` |
//! | `LookSynced`, `LookBroken` | the first two questions of the loop in `make_durable` |
//! | `Baton` | `take_baton`; if another member has it, `wake_word::sleep` or the lonely sync |
//! | `LookAgain` | `before` in `round`; `gather` is a rest after it |
//! | `ReadCommitted` | `covered` in `round` |
//! | `Sync`, `Syncing` | the begin and the end of `sync()` in `sync` |
//! | `SayBroken` | `sync_failed` |
//! | `LookBrokenAfter` | the end of `sync` |
//! | `Publish` | `synced().store` |
//! | `LeaveBaton` | `leave_baton`; `wake_word::wake` is no step, as each sleep may end at any time |
//!
//! The disk: `log` has the commits in the order of their writes, of which the first `durable` are
//! there after any power cut, and any prefix of more. A sync covers what was written when it began.
//! If the system fails to write, all that is not durable is lost, though processes read it: nothing
//! behind that gap becomes durable any more. Each process that had the log open is told by its next
//! sync, once; one that opens it later, too, unless another process was told before.
//!
//! One process may open the log late. It joins unless the page says `broken`. *Assumed*: it does not
//! open the log between the moment in which the system tells another process of a failure and the
//! moment in which that one has said `broken`. In that time, some microseconds, the late one would
//! learn of the failure from neither of them.
//!
//! Must never: let a process know what the real one cannot.

use super::{By, Model, assert_found, explore};

/// Processes at most.
const PROCESSES: usize = 3;

/// The model's size, and its variant. The last process opens the log at any time, the others have it
/// open at the start.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// Commits of each process.
    commits: &'static [u8],
    variant: Variant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    AsIs,
    CountsBeforeWrite,
    ReadsCommittedAfterSync,
    NeverSaysBroken,
    /// A member waits for the baton for ever.
    NeverLonely,
}

/// The next step of a process. The table at the top of the file names the code of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Open,
    Write,
    Count,
    LookSynced,
    LookBroken,
    Baton,
    LookAgain,
    ReadCommitted,
    Sync {
        is_lonely: bool,
    },
    Syncing {
        is_lonely: bool,
    },
    SayBroken,
    LookBrokenAfter {
        is_lonely: bool,
    },
    Publish,
    LeaveBaton {
        is_answered: bool,
    },
    /// All commits are answered, the writer has stopped after an error, or the process was killed.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    at: At,
    /// Commits to come.
    left: u8,
    /// The number of the commit that waits, and its place in the log, counted from 1.
    ours: u8,
    place: u8,
    covered: u8,
    /// Length of the log as the sync began.
    written: u8,
    /// The log is open, and the system will tell of a failure.
    is_open: bool,
    to_tell: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold in any combination")]
struct State {
    processes: [Process; PROCESSES],
    committed: u8,
    synced: u8,
    broken: bool,
    baton: Option<u8>,
    /// Length of the log, and of what is durable.
    log: u8,
    durable: u8,
    /// The system has failed to write.
    has_failed: bool,
    /// A process was told of it.
    is_told: bool,
    /// It has not said `broken` yet.
    is_unsaid: bool,
    /// Places of the commits that were answered with success, as bits.
    answered: u8,
}

impl Model for Rounds {
    type State = State;

    fn starts(&self) -> Vec<State> {
        let process = |number: usize| {
            let left = self.commits.get(number).copied().unwrap_or_default();
            let is_open = number + 1 != self.commits.len();
            let at = match (left, is_open) {
                (0, _) => At::Ended,
                (_, true) => self.first_step(),
                (_, false) => At::Open,
            };
            let to_tell = false;
            Process { at, left, ours: 0, place: 0, covered: 0, written: 0, is_open, to_tell }
        };
        vec![State {
            processes: std::array::from_fn(process),
            committed: 0,
            synced: 0,
            broken: false,
            baton: None,
            log: 0,
            durable: 0,
            has_failed: false,
            is_told: false,
            is_unsaid: false,
            answered: 0,
        }]
    }

    fn steps(&self, state: &State, step: &mut dyn FnMut(By, State)) {
        for number in 0..self.commits.len() {
            if self.has_ended(state, number) {
                continue;
            }
            self.step_of(state, number, step);
            let mut killed = state.clone();
            killed.baton = killed.baton.filter(|&holder| holder != number as u8);
            killed.processes[number] = ENDED;
            step(By::Misfortune, killed);
        }
        if !state.has_failed && state.durable < state.log {
            let mut failed = state.clone();
            failed.fail();
            step(By::Misfortune, failed);
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        // Places beyond those that any power cut leaves.
        if state.answered >> (state.durable + 1) != 0 {
            return Err("an answered commit is lost in a power cut".to_owned());
        }
        Ok(())
    }

    fn has_ended(&self, state: &State, process: usize) -> bool {
        state.processes[process].at == At::Ended
    }

    fn may_stop(&self, _state: &State, _process: usize) -> bool {
        true
    }

    fn processes(&self) -> usize {
        self.commits.len()
    }
}

const ENDED: Process = Process {
    at: At::Ended,
    left: 0,
    ours: 0,
    place: 0,
    covered: 0,
    written: 0,
    is_open: false,
    to_tell: false,
};

impl State {
    /// This state after a step of a process, which is now at its next one.
    fn moved(&self, number: usize, to: At, change: &dyn Fn(&mut Self, &mut Process)) -> Self {
        let mut next = self.clone();
        let mut changed = Process { at: to, ..self.processes[number] };
        change(&mut next, &mut changed);
        next.processes[number] = if to == At::Ended { ENDED } else { changed };
        next
    }

    /// The system fails to write: it forgets what is not durable, and will tell who has the log open.
    fn fail(&mut self) {
        self.has_failed = true;
        for process in &mut self.processes {
            process.to_tell = process.is_open;
        }
    }

    /// The end of a sync that covers so much of the log: false if it tells of a failure.
    fn sync_ends(&mut self, number: usize, written: u8) -> bool {
        if std::mem::take(&mut self.processes[number].to_tell) {
            self.is_told = true;
            self.is_unsaid = true;
            return false;
        }
        if !self.has_failed {
            self.durable = self.durable.max(written);
        }
        true
    }
}

impl Rounds {
    fn first_step(&self) -> At {
        if self.variant == Variant::CountsBeforeWrite { At::Count } else { At::Write }
    }

    /// All that the process may do next.
    fn step_of(&self, state: &State, number: usize, step: &mut dyn FnMut(By, State)) {
        let process = state.processes[number];
        let mut go = |to: At, change: &dyn Fn(&mut State, &mut Process)| {
            step(By::Process(number), state.moved(number, to, change));
        };
        let (counts_first, by_itself) =
            (self.variant == Variant::CountsBeforeWrite, self.variant != Variant::NeverLonely);
        match process.at {
            At::Open if state.is_unsaid => {
                // Not at this moment; see the module. The process need not open it at all.
                go(At::Ended, &|_, _| {});
            }
            At::Open if state.broken => go(At::Ended, &|_, _| {}),
            At::Open => go(self.first_step(), &|state, process| {
                process.is_open = true;
                process.to_tell = state.has_failed && !state.is_told;
            }),
            At::Write => {
                go(if counts_first { At::LookSynced } else { At::Count }, &|state, process| {
                    state.log += 1;
                    process.place = state.log;
                });
            }
            At::Count => {
                go(if counts_first { At::Write } else { At::LookSynced }, &|state, process| {
                    state.committed += 1;
                    process.ours = state.committed;
                });
            }
            At::LookSynced if state.synced >= process.ours => self.answer(state, number, step),
            At::LookSynced => go(At::LookBroken, &|_, _| {}),
            At::LookBroken if state.broken => go(At::Ended, &|_, _| {}),
            At::LookBroken => go(At::Baton, &|_, _| {}),
            At::Baton if state.baton.is_none() => {
                go(At::LookAgain, &|state, _| state.baton = Some(number as u8));
            }
            At::Baton => {
                go(At::LookSynced, &|_, _| {});
                if by_itself {
                    go(At::Sync { is_lonely: true }, &|_, _| {});
                }
            }
            _ => self.step_of_sync(state, number, step),
        }
    }

    /// All that a process may do next that has the baton, or syncs without it.
    fn step_of_sync(&self, state: &State, number: usize, step: &mut dyn FnMut(By, State)) {
        let process = state.processes[number];
        let mut go = |to: At, change: &dyn Fn(&mut State, &mut Process)| {
            step(By::Process(number), state.moved(number, to, change));
        };
        match process.at {
            At::LookAgain if state.synced >= process.ours => {
                go(At::LeaveBaton { is_answered: true }, &|_, _| {});
            }
            At::LookAgain if self.variant == Variant::ReadsCommittedAfterSync => {
                go(At::Sync { is_lonely: false }, &|_, _| {});
            }
            At::LookAgain => go(At::ReadCommitted, &|_, _| {}),
            At::ReadCommitted => {
                let is_late = self.variant == Variant::ReadsCommittedAfterSync;
                let next = if is_late { At::Publish } else { At::Sync { is_lonely: false } };
                go(next, &|state, process| process.covered = state.committed);
            }
            At::Sync { is_lonely } => {
                go(At::Syncing { is_lonely }, &|state, process| process.written = state.log);
            }
            At::Syncing { is_lonely } => end_sync(state, number, is_lonely, step),
            At::SayBroken => go(At::LeaveBaton { is_answered: false }, &|state, _| {
                state.broken = self.variant != Variant::NeverSaysBroken;
                state.is_unsaid = false;
            }),
            At::LookBrokenAfter { .. } if state.broken => {
                go(At::LeaveBaton { is_answered: false }, &|_, _| {});
            }
            At::LookBrokenAfter { is_lonely: true } => self.answer(state, number, step),
            At::LookBrokenAfter { .. } if self.variant == Variant::ReadsCommittedAfterSync => {
                go(At::ReadCommitted, &|_, _| {});
            }
            At::LookBrokenAfter { .. } => go(At::Publish, &|_, _| {}),
            At::Publish => go(At::LeaveBaton { is_answered: true }, &|state, process| {
                state.synced = state.synced.max(process.covered);
                process.covered = 0;
            }),
            At::LeaveBaton { is_answered } => {
                let mut next = state.clone();
                next.baton = next.baton.filter(|&holder| holder != number as u8);
                if is_answered {
                    self.answer(&next, number, step);
                } else {
                    next.processes[number] = ENDED;
                    step(By::Process(number), next);
                }
            }
            _ => {}
        }
    }

    /// The commit is answered with success, and the next one begins.
    fn answer(&self, state: &State, number: usize, step: &mut dyn FnMut(By, State)) {
        let mut next = state.clone();
        let process = &mut next.processes[number];
        let left = process.left - 1;
        let at = if left == 0 { At::Ended } else { self.first_step() };
        next.answered |= 1 << process.place;
        let Process { is_open, to_tell, .. } = *process;
        let next_one = Process { at, left, is_open, to_tell, ..ENDED };
        *process = if left == 0 { ENDED } else { next_one };
        step(By::Process(number), next);
    }
}

fn end_sync(state: &State, number: usize, is_lonely: bool, step: &mut dyn FnMut(By, State)) {
    let mut next = state.clone();
    let is_done = next.sync_ends(number, state.processes[number].written);
    let process = &mut next.processes[number];
    process.written = 0;
    process.at = if is_done { At::LookBrokenAfter { is_lonely } } else { At::SayBroken };
    step(By::Process(number), next);
}

#[test]
fn an_answered_commit_is_on_disk_and_each_living_process_is_answered() {
    // Two processes with two commits each, and three with one.
    for (commits, states) in [(&[2, 2][..], 32_521), (&[1, 1, 1], 420_736)] {
        let model = Rounds { commits, variant: Variant::AsIs };
        assert_eq!(explore(&model), Ok(states), "{model:?}");
    }
}

#[test]
fn wrong_variants_are_found() {
    let lost = "an answered commit is lost";
    for (variant, fault) in [
        (Variant::CountsBeforeWrite, lost),
        (Variant::ReadsCommittedAfterSync, lost),
        (Variant::NeverSaysBroken, lost),
        (Variant::NeverLonely, "the others cannot end"),
    ] {
        assert_found(&Rounds { commits: &[2, 2], variant }, fault);
    }
}
