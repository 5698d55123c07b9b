//! Models of the protocol, and an enumerator that visits each state that they can reach.
//!
//! | file | models |
//! |---|---|
//! | `rounds.rs` | commits, rounds and syncs of a disk that may fail |
//! | `line.rs` | the line for the write lock |
//! | `membership.rs` | joining and leaving: the file `-shared`, cleared and removed |
//!
//! A model is a state and its *steps*. A step is one access to the shared page, to a lock or to the
//! disk, by one process, so all orders of steps of all processes are visited. Between two steps a
//! process may rest for any time. A wait with a time limit is a step that is always possible: it may
//! end at once or after any time. Scans of all slots are one step.
//!
//! 1. No state breaks a rule of the model ([`Model::check`]).
//! 2. In each state the processes that live can come to their ends by their own steps, without a
//!    further kill or fault: there is no deadlock and no livelock.
//! 3. That holds for the others too if any one process never moves again ([`Model::may_stop`]).
//!
//! Each model has wrong variants, which the same enumerator must find wrong.
//!
//! Must never: be cut short. A limit of states would hide what lies behind it.

mod line;
mod membership;
mod rounds;

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// The cause of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A process, by its own work.
    Process(usize),
    /// A kill, or a fault of the disk.
    Misfortune,
}

/// A protocol: its states, the steps between them, and its rules.
trait Model {
    type State: Clone + Eq + Hash + Debug;

    /// The states to begin with.
    fn starts(&self) -> Vec<Self::State>;
    /// All steps that are possible.
    fn steps(&self, state: &Self::State, step: &mut dyn FnMut(By, Self::State));
    /// The rules, which hold in each state.
    fn check(&self, state: &Self::State) -> Result<(), String>;
    /// Returns true if the process has come to its end, or is dead.
    fn has_ended(&self, state: &Self::State, process: usize) -> bool;
    /// Returns true if the others must come to their ends without this process.
    fn may_stop(&self, state: &Self::State, process: usize) -> bool;
    /// Number of processes.
    fn processes(&self) -> usize;
}

/// The states of a model, and the steps between them.
struct Graph<S> {
    states: Vec<S>,
    /// Of each state: the state before it, for the way to a fault.
    from: Vec<usize>,
    /// Of each state: the steps that lead to it.
    steps_to: Vec<Vec<(By, u32)>>,
}

/// Visits all states. Returns their number, or the first fault that was found and the way to it.
fn explore<M: Model>(model: &M) -> Result<usize, String> {
    let graph = visit(model)?;
    let count = model.processes();
    let all_end = |state: &M::State, without: usize| {
        (0..count).all(|process| process == without || model.has_ended(state, process))
    };
    // `count` is no process: there all move.
    for without in 0..=count {
        let ends = can_reach(&graph, |state| all_end(state, without), without);
        for (number, state) in graph.states.iter().enumerate() {
            let is_asked = without == count || model.may_stop(state, without);
            if is_asked && !ends[number] {
                let who = if without == count { "all" } else { "the others" };
                return Err(way(&graph, number, &format!("{who} cannot end ({without} stops)")));
            }
        }
    }
    Ok(graph.states.len())
}

fn visit<M: Model>(model: &M) -> Result<Graph<M::State>, String> {
    let mut graph = Graph { states: Vec::new(), from: Vec::new(), steps_to: Vec::new() };
    let mut numbers = HashMap::new();
    for start in model.starts() {
        numbers.insert(start.clone(), graph.states.len() as u32);
        graph.from.push(graph.states.len());
        graph.states.push(start);
        graph.steps_to.push(Vec::new());
    }
    let mut next = 0;
    while next < graph.states.len() {
        let state = graph.states[next].clone();
        model.check(&state).map_err(|fault| way(&graph, next, &fault))?;
        model.steps(&state, &mut |by, state| {
            let number = *numbers.entry(state).or_insert_with_key(|state| {
                graph.states.push(state.clone());
                graph.from.push(next);
                graph.steps_to.push(Vec::new());
                graph.states.len() as u32 - 1
            });
            graph.steps_to[number as usize].push((by, next as u32));
        });
        next += 1;
    }
    Ok(graph)
}

/// Of each state: true if steps of processes other than `without` lead from it to a state that is
/// `wanted`.
fn can_reach<S>(graph: &Graph<S>, wanted: impl Fn(&S) -> bool, without: usize) -> Vec<bool> {
    let mut reaches: Vec<bool> = graph.states.iter().map(wanted).collect();
    let mut next: Vec<usize> = (0..reaches.len()).filter(|&number| reaches[number]).collect();
    while let Some(number) = next.pop() {
        for &(by, before) in &graph.steps_to[number] {
            let is_step = matches!(by, By::Process(process) if process != without);
            if is_step && !std::mem::replace(&mut reaches[before as usize], true) {
                next.push(before as usize);
            }
        }
    }
    reaches
}

/// A fault, and the states that lead to it.
fn way<S: Debug>(graph: &Graph<S>, mut number: usize, fault: &str) -> String {
    let mut states = vec![format!("{:?}", graph.states[number])];
    while graph.from[number] != number {
        number = graph.from[number];
        states.push(format!("{:?}", graph.states[number]));
    }
    states.reverse();
    format!("{fault}, after\n{}", states.join("\n"))
}

/// Asserts that a wrong variant is found wrong, for this reason.
fn assert_found(model: &impl Model, fault: &str) {
    let found = explore(model).expect_err("a wrong variant must not pass");
    assert!(found.starts_with(fault), "another fault: {found}");
}
