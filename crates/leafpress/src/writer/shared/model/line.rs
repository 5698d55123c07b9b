//! The model of `line.rs`: tickets, SQLite's write lock, and members that are killed or do not move.
//!
//! | step ([`At`]) | in `line.rs` |
//! |---|---|
//! | `Look` | the first line of `line_up` |
//! | `Count`, `Store` | `take_ticket`, called by `line_up` or by `wait_at_lock` |
//! | `LookInLine` | `first_of_others(ours)` in the loop of `line_up` |
//! | `Wait` | `wake_word::sleep`; or the end of [`PATIENCE`](super::super::line), after `is_held` |
//! | `TryLock` | SQLite's `BEGIN IMMEDIATE`, and `wait_at_lock` when the lock is held |
//! | `SayHolder`, `ClearTicket` | `begun` |
//! | `ClearHolder` | the transaction, and `ending` |
//! | `Commit` | COMMIT |
//! | `ClearLast` | `leave_line`; its wake-up is no step, as each sleep may end at any time |
//!
//! `goes_on` is always true: no wait ends by its limit alone.
//!
//! 1. Without kills, and while no member loses its patience, a member that lined up behind others
//!    gets the lock after them.
//! 2. Each process that does not hold SQLite's lock may stop for ever, and the others all get the
//!    lock as often as they want it.
//!
//! Must never: give the lock to two processes; that is SQLite's part.

use super::{By, Model, assert_found, explore, visit};

const PROCESSES: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Transactions of each process.
    turns: &'static [u8],
    /// Processes may be killed.
    may_die: bool,
    variant: Variant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    AsIs,
    /// Members wait for those before them for ever. Then the order is strict.
    Patient,
    /// Members say that a transaction ends after it has ended.
    ClearsHolderLate,
    /// Members do not look at the line before they try the lock.
    Barges,
}

/// The next step of a process. The table at the top of the file names the code of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Look,
    Count { is_in_line: bool },
    Store { is_in_line: bool },
    LookInLine,
    Wait { first: u8, ticket: u8 },
    TryLock,
    SayHolder,
    ClearTicket,
    ClearHolder,
    Commit,
    ClearLast,
    Ended,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    at: At,
    left: u8,
    ours: u8,
    /// Those that were in the line as this one took its place there, as bits. No process knows it.
    behind: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: [Process; PROCESSES],
    last_ticket: u8,
    tickets: [u8; PROCESSES],
    holder: Option<u8>,
    /// The process that has SQLite's lock.
    lock: Option<u8>,
    /// A member got the lock before one that it had lined up behind.
    is_unfair: bool,
}

impl State {
    /// This state after a step of a process, which is now at its next one.
    fn moved(&self, number: usize, to: At, change: &dyn Fn(&mut Self, &mut Process)) -> Self {
        let mut next = self.clone();
        let mut changed = Process { at: to, ..self.processes[number] };
        change(&mut next, &mut changed);
        next.processes[number] = changed;
        next
    }

    fn first_of_others(&self, number: usize, than: u8) -> Option<(u8, u8)> {
        let others = (0..PROCESSES).filter(|&other| other != number);
        let waiting = others.filter(|&other| (1..than).contains(&self.tickets[other]));
        waiting.map(|other| (other as u8, self.tickets[other])).min_by_key(|(_, ticket)| *ticket)
    }

    fn is_alive(&self, number: usize) -> bool {
        self.processes[number].at != At::Dead
    }
}

impl Model for Line {
    type State = State;

    fn starts(&self) -> Vec<State> {
        let process = |number: usize| {
            let left = self.turns.get(number).copied().unwrap_or_default();
            let at = if left == 0 { At::Ended } else { self.first_step() };
            Process { at, left, ours: 0, behind: 0 }
        };
        vec![State {
            processes: std::array::from_fn(process),
            last_ticket: 0,
            tickets: [0; PROCESSES],
            holder: None,
            lock: None,
            is_unfair: false,
        }]
    }

    fn steps(&self, state: &State, step: &mut dyn FnMut(By, State)) {
        for number in 0..self.turns.len() {
            if self.has_ended(state, number) {
                continue;
            }
            self.step_of(state, number, step);
            if self.may_die {
                let mut killed = state.clone();
                killed.lock = killed.lock.filter(|&holder| holder != number as u8);
                killed.processes[number] = Process { at: At::Dead, left: 0, ours: 0, behind: 0 };
                step(By::Misfortune, killed);
            }
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        let is_strict = matches!(self.variant, Variant::Patient | Variant::Barges);
        if is_strict && state.is_unfair {
            return Err("a member got the lock before one that it had lined up behind".to_owned());
        }
        Ok(())
    }

    fn has_ended(&self, state: &State, process: usize) -> bool {
        matches!(state.processes[process].at, At::Ended | At::Dead)
    }

    fn may_stop(&self, state: &State, process: usize) -> bool {
        state.lock != Some(process as u8)
    }

    fn processes(&self) -> usize {
        self.turns.len()
    }
}

impl Line {
    fn first_step(&self) -> At {
        if self.variant == Variant::Barges { At::Count { is_in_line: true } } else { At::Look }
    }

    fn step_of(&self, state: &State, number: usize, step: &mut dyn FnMut(By, State)) {
        let process = state.processes[number];
        let mut go = |to: At, change: &dyn Fn(&mut State, &mut Process)| {
            step(By::Process(number), state.moved(number, to, change));
        };
        match process.at {
            At::Look if state.first_of_others(number, u8::MAX).is_none() => {
                go(At::TryLock, &|_, _| {});
            }
            At::Look => go(At::Count { is_in_line: true }, &|_, _| {}),
            At::Count { is_in_line } => go(At::Store { is_in_line }, &|state, process| {
                state.last_ticket += 1;
                process.ours = state.last_ticket;
                let has_ticket = |&other: &usize| state.tickets[other] != 0;
                let has_lock = |other: usize| state.lock == Some(other as u8);
                let waiting = (0..PROCESSES).filter(has_ticket).filter(|&it| !has_lock(it));
                let all = waiting.fold(0, |bits, other| bits | 1 << other);
                process.behind = if is_in_line { all } else { 0 };
            }),
            At::Store { is_in_line } => {
                let waits = is_in_line && self.variant != Variant::Barges;
                go(if waits { At::LookInLine } else { At::TryLock }, &|state, process| {
                    state.tickets[number] = process.ours;
                });
            }
            At::LookInLine => match state.first_of_others(number, process.ours) {
                Some((first, ticket)) => go(At::Wait { first, ticket }, &|_, _| {}),
                None => go(At::TryLock, &|_, _| {}),
            },
            At::Wait { first, ticket } => {
                go(At::LookInLine, &|_, _| {});
                let holder = state.holder.filter(|&holder| state.is_alive(holder.into()));
                if holder.is_none() && self.variant != Variant::Patient {
                    go(At::LookInLine, &|state, _| {
                        state.holder = None;
                        let place = &mut state.tickets[usize::from(first)];
                        *place = if *place == ticket { 0 } else { *place };
                    });
                }
            }
            _ => self.step_at_lock(state, number, step),
        }
    }

    /// All that a process may do next that tries the lock or has it.
    fn step_at_lock(&self, state: &State, number: usize, step: &mut dyn FnMut(By, State)) {
        let process = state.processes[number];
        let mut go = |to: At, change: &dyn Fn(&mut State, &mut Process)| {
            step(By::Process(number), state.moved(number, to, change));
        };
        let clears_late = self.variant == Variant::ClearsHolderLate;
        match process.at {
            At::TryLock if state.lock.is_none() => go(At::SayHolder, &|state, process| {
                state.lock = Some(number as u8);
                state.is_unfair |= process.behind != 0;
                process.behind = 0;
                // It is before no other one any more.
                for other in &mut state.processes {
                    other.behind &= !(1 << number);
                }
            }),
            At::TryLock if state.tickets[number] == 0 => {
                go(At::Count { is_in_line: false }, &|_, _| {});
            }
            At::SayHolder => go(At::ClearTicket, &|state, _| state.holder = Some(number as u8)),
            At::ClearTicket => {
                go(if clears_late { At::Commit } else { At::ClearHolder }, &|state, process| {
                    state.tickets[number] = 0;
                    process.ours = 0;
                });
            }
            At::ClearHolder => {
                go(if clears_late { At::ClearLast } else { At::Commit }, &|state, _| {
                    state.holder = state.holder.filter(|&holder| holder != number as u8);
                });
            }
            At::Commit => {
                go(if clears_late { At::ClearHolder } else { At::ClearLast }, &|state, _| {
                    state.lock = None;
                });
            }
            At::ClearLast => {
                let at = if process.left == 1 { At::Ended } else { self.first_step() };
                go(at, &|state, process| {
                    state.tickets[number] = 0;
                    process.left -= 1;
                });
            }
            // A lock that is held is tried again.
            _ => {}
        }
    }
}

const AS_IS: Line = Line { turns: &[2, 2], may_die: true, variant: Variant::AsIs };

#[test]
fn each_living_member_gets_the_lock_whichever_other_one_stops_or_dies() {
    let sizes = [(AS_IS, 2_173), (Line { turns: &[2, 1, 1], ..AS_IS }, 59_581)];
    for (model, states) in sizes {
        assert_eq!(explore(&model), Ok(states), "{model:?}");
    }
}

/// Where no member dies or loses its patience.
#[test]
fn the_first_to_line_up_gets_the_lock_first() {
    let patient = Line { turns: &[2, 2, 1], may_die: false, variant: Variant::Patient };
    assert_eq!(visit(&patient).map(|graph| graph.states.len()), Ok(26_515));
}

#[test]
fn wrong_variants_are_found() {
    let barges = Line { may_die: false, variant: Variant::Barges, ..AS_IS };
    assert_found(&barges, "a member got the lock before");
    for variant in [Variant::Patient, Variant::ClearsHolderLate] {
        assert_found(&Line { turns: &[1, 1, 1], variant, ..AS_IS }, "the others cannot end");
    }
}
