//! The model of `membership.rs`: joining and leaving, the file `-shared` made, cleared and removed.
//!
//! | step ([`At`]) | in `membership.rs` |
//! |---|---|
//! | `Open`, `Create` | the two ways to a file in `attempt` |
//! | `TryAlone` | `try_exclusive(MEMBERS)` in `attempt` |
//! | `LookBeforeClear`, `Clear` | `is_at` and `clear` |
//! | `TryShared`, `LookForMembers` | the rest of `attempt` |
//! | `TakeSlot` | the end of `joined` |
//! | `Member` | a writer that is open |
//! | `ReleaseSlot`, `TryLast`, `LookLast`, `Remove`, `Close` | `drop` |
//!
//! 1. A member's file is the one at the path, and was cleared since it was last without members.
//! 2. The file is neither cleared nor removed while it has a member.
//!
//! Must never: let a lock outlive its process.

use super::{By, Model, assert_found, explore};

const PROCESSES: usize = 3;
/// Numbers of files, of which 0 is none: each process can have one open.
const FILES: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Joining {
    processes: usize,
    variant: Variant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    AsIs,
    /// Joins without a look whether the file that it has not cleared has members.
    TrustsTheFile,
    /// Clears the file without a look whether it is still at the path.
    TrustsThePath,
    /// Removes the file without being alone.
    RemovesAlways,
}

/// The next step of a process. The table at the top of the file names the code of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Open,
    Create,
    TryAlone,
    LookBeforeClear,
    Clear,
    TryShared { has_cleared: bool },
    LookForMembers,
    TakeSlot,
    Member,
    ReleaseSlot,
    TryLast,
    LookLast,
    Remove,
    Close,
    Ended,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lock {
    None,
    Shared,
    Alone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    at: At,
    file: u8,
    lock: Lock,
    has_slot: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: [Process; PROCESSES],
    /// The file at the path.
    path: Option<u8>,
    /// Of each file: true if it was cleared since it was last without a lock.
    is_clean: [bool; FILES],
    fault: Option<&'static str>,
}

const GONE: Process = Process { at: At::Dead, file: 0, lock: Lock::None, has_slot: false };

impl State {
    fn others_on(&self, number: usize) -> impl Iterator<Item = &Process> {
        let file = self.processes[number].file;
        let others = self.processes.iter().enumerate().filter(move |(other, _)| *other != number);
        others.map(|(_, process)| process).filter(move |process| process.file == file)
    }

    fn may_lock(&self, number: usize, lock: Lock) -> bool {
        self.others_on(number).all(|other| match lock {
            Lock::Alone => other.lock == Lock::None,
            _ => other.lock != Lock::Alone,
        })
    }

    /// A file that no process has locked is as its last members have left it.
    fn forget_files(&mut self) {
        for file in 0..FILES {
            let has_lock = |it: &Process| it.lock != Lock::None && usize::from(it.file) == file;
            self.is_clean[file] &= self.processes.iter().any(has_lock);
        }
    }

    fn has_member(&self, number: usize) -> bool {
        self.others_on(number).any(|other| other.at == At::Member)
    }
}

impl Model for Joining {
    type State = State;

    /// Without a file, and with one that processes that were killed have left.
    fn starts(&self) -> Vec<State> {
        let at = |number| if number < self.processes { At::Open } else { At::Ended };
        let none = State {
            processes: std::array::from_fn(|number| Process { at: at(number), ..GONE }),
            path: None,
            is_clean: [false; FILES],
            fault: None,
        };
        vec![State { path: Some(1), ..none.clone() }, none]
    }

    fn steps(&self, state: &State, step: &mut dyn FnMut(By, State)) {
        for number in 0..self.processes {
            if self.has_ended(state, number) {
                continue;
            }
            let mut next = state.clone();
            self.step_of(&mut next, number);
            next.forget_files();
            step(By::Process(number), next);
            let mut killed = state.clone();
            killed.processes[number] = GONE;
            killed.forget_files();
            step(By::Misfortune, killed);
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(fault) = state.fault {
            return Err(fault.to_owned());
        }
        for member in state.processes.iter().filter(|process| process.at == At::Member) {
            if state.path != Some(member.file) {
                return Err("the file of a member is not at the path".to_owned());
            }
            if !state.is_clean[usize::from(member.file)] {
                return Err("a member uses a file that was not cleared".to_owned());
            }
        }
        Ok(())
    }

    fn has_ended(&self, state: &State, process: usize) -> bool {
        matches!(state.processes[process].at, At::Ended | At::Dead)
    }

    /// One that stops as it joins or leaves can make those that join give up after a time; a member
    /// cannot.
    fn may_stop(&self, state: &State, process: usize) -> bool {
        state.processes[process].at == At::Member
    }

    fn processes(&self) -> usize {
        self.processes
    }
}

impl Joining {
    fn step_of(&self, state: &mut State, number: usize) {
        let Process { at, file, .. } = state.processes[number];
        let is_at_path = state.path == Some(file);
        let mut process = state.processes[number];
        // Another attempt: the file is closed.
        let again = Process { at: At::Open, ..GONE };
        match at {
            At::Open => match state.path {
                Some(file) => process = Process { at: At::TryAlone, file, ..process },
                None => process.at = At::Create,
            },
            At::Create if state.path.is_some() => process = again,
            At::Create => {
                let is_open = |file| state.processes.iter().any(|process| process.file == file);
                let file = (1..FILES as u8).find(|&file| !is_open(file)).unwrap();
                state.path = Some(file);
                process = Process { at: At::TryAlone, file, ..process };
            }
            At::TryAlone if state.may_lock(number, Lock::Alone) => {
                process = Process { at: At::LookBeforeClear, lock: Lock::Alone, ..process };
            }
            At::TryAlone => process.at = At::TryShared { has_cleared: false },
            At::LookBeforeClear if is_at_path || self.variant == Variant::TrustsThePath => {
                process.at = At::Clear;
            }
            At::Clear => {
                if state.has_member(number) {
                    state.fault = Some("a file was cleared under a member");
                }
                state.is_clean[usize::from(file)] = true;
                process.at = At::TryShared { has_cleared: true };
            }
            At::TryShared { has_cleared } if state.may_lock(number, Lock::Shared) => {
                let is_sure = has_cleared || self.variant == Variant::TrustsTheFile;
                let at = if is_sure { At::TakeSlot } else { At::LookForMembers };
                process = Process { at, lock: Lock::Shared, ..process };
            }
            At::LookForMembers if state.others_on(number).any(|other| other.has_slot) => {
                process.at = At::TakeSlot;
            }
            At::LookBeforeClear | At::TryShared { .. } | At::LookForMembers => process = again,
            At::TakeSlot => process = Process { at: At::Member, has_slot: true, ..process },
            At::Member => process.at = At::ReleaseSlot,
            At::ReleaseSlot => process = Process { at: At::TryLast, has_slot: false, ..process },
            At::TryLast if self.variant == Variant::RemovesAlways => process.at = At::LookLast,
            At::TryLast if state.may_lock(number, Lock::Alone) => {
                process = Process { at: At::LookLast, lock: Lock::Alone, ..process };
            }
            At::TryLast => process.at = At::Close,
            At::LookLast => process.at = if is_at_path { At::Remove } else { At::Close },
            At::Remove => {
                if state.has_member(number) {
                    state.fault = Some("a file was removed under a member");
                }
                state.path = None;
                process.at = At::Close;
            }
            At::Close => process = Process { at: At::Ended, ..GONE },
            At::Ended | At::Dead => {}
        }
        state.processes[number] = process;
    }
}

const AS_IS: Joining = Joining { processes: 3, variant: Variant::AsIs };

#[test]
fn members_share_one_file_that_was_cleared() {
    for (processes, states) in [(2, 299), (3, 5_571)] {
        assert_eq!(explore(&Joining { processes, ..AS_IS }), Ok(states), "{processes} processes");
    }
}

#[test]
fn wrong_variants_are_found() {
    for (variant, fault) in [
        (Variant::TrustsTheFile, "a member uses a file that was not cleared"),
        (Variant::TrustsThePath, "the file of a member is not at the path"),
        (Variant::RemovesAlways, "the file of a member is not at the path"),
    ] {
        assert_found(&Joining { variant, ..AS_IS }, fault);
    }
}
